// An independent OpenID provider: the certified oidc-provider, with people who have passwords and one-time codes and no
// consent to ask.
//
//   node provider.mjs CONFIG.json
//
// The configuration is written by provider_test.go: issuer, port, cert, key, keys (a JWK set, made on the first start
// and kept, so that a provider that was down comes back as the same one), clients, accounts.
import { createServer } from 'node:https';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createHmac, generateKeyPairSync, randomBytes } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { Provider, interactionPolicy } from 'oidc-provider';

const config = JSON.parse(readFileSync(process.argv[2], 'utf8'));

function signingKeys() {
  if (!existsSync(config.keys)) {
    const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
    const jwk = { ...privateKey.export({ format: 'jwk' }), kid: 'e2e', use: 'sig', alg: 'RS256' };
    writeFileSync(config.keys, JSON.stringify({ keys: [jwk] }), { mode: 0o600 });
  }
  return JSON.parse(readFileSync(config.keys, 'utf8'));
}

// groups makes an account's token as long as those of large organisations are.
const groups = (n) => Array.from({ length: n }, (_, i) => `cn=group-${i},ou=operations,dc=example,dc=org,uid=${i * 7919}`);

function claimsOf(name) {
  const account = config.accounts[name];
  return {
    sub: account.sub ?? name, name: account.name, preferred_username: name, email: `${name}@ops.example`, email_verified: true,
    ...(account.groups ? { groups: groups(account.groups) } : {}),
  };
}

// Only who signs in is asked; what the clients may do was settled by whoever registered them.
const policy = interactionPolicy.base();
policy.remove('consent');

const provider = new Provider(config.issuer, {
  clients: config.clients,
  cookies: { keys: [randomBytes(32).toString('hex')] },
  jwks: signingKeys(),
  pkce: { required: () => true },
  claims: { openid: ['sub', 'acr', 'amr', 'auth_time', 'groups'], profile: ['name', 'preferred_username'], email: ['email', 'email_verified'] },
  acrValues: ['gold'],
  conformIdTokenClaims: false,
  interactions: { policy, url: (_, interaction) => `/sign-in/${interaction.uid}` },
  features: {
    devInteractions: { enabled: false },
    backchannelLogout: { enabled: true },
    rpInitiatedLogout: {
      enabled: true,
      logoutSource: (ctx, form) => { ctx.body = page('Sign out', `${form}<button form="op.logoutForm" name="logout" value="yes" type="submit">Sign out here too</button>`); },
      postLogoutSuccessSource: (ctx) => { ctx.body = page('Signed out', '<p>Signed out at the provider.</p>'); },
    },
  },
  // What the provider tells a client goes to this machine, whatever the client's name; its own dispatcher refuses to.
  fetch: (url, { dispatcher, ...options }) => {
    const here = new URL(url);
    here.hostname = '127.0.0.1';
    return globalThis.fetch(here, options);
  },
  findAccount: (_, id) => (config.accounts[id] ? { accountId: id, claims: async () => claimsOf(id) } : undefined),
  async loadExistingGrant(ctx) {
    const grant = new ctx.oidc.provider.Grant({ clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId });
    grant.addOIDCScope('openid profile email');
    await grant.save();
    return grant;
  },
  renderError(ctx, out) { ctx.body = page('Error', `<p>${out.error}: ${out.error_description ?? ''}</p>`); },
});

function page(title, body) {
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>${title} - independent provider</title><h1>${title}</h1>${body}</html>`;
}

function form(uid, wrong, second) {
  return page('Sign in at the provider', `${wrong ? '<p role="alert">Wrong name or password.</p>' : ''}
    <form method="post" action="/sign-in/${uid}">
      <label>Name <input id="name" name="name" autofocus></label>
      <label>Password <input id="password" name="password" type="password"></label>
      ${second ? '<label>One-time code <input id="code" name="code" inputmode="numeric"></label>' : ''}
      <button name="do" value="sign-in">Sign in</button>
      <button id="cancel" name="do" value="cancel">Cancel</button>
    </form>`);
}

// codes are the one-time codes (RFC 6238) of this half minute and its neighbours. The secret is the account's password.
function codes(account) {
  return [-1, 0, 1].map((ago) => {
    const counter = Buffer.alloc(8);
    counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) - ago));
    const mac = createHmac('sha1', account.password).update(counter).digest();
    return String((mac.readUInt32BE(mac[19] & 15) & 0x7fffffff) % 1_000_000).padStart(6, '0');
  });
}

// authenticated says what was proved, when. No account is authenticated twice in the same second.
const last = new Map();
async function authenticated(name, code) {
  while (Math.floor(Date.now() / 1000) <= (last.get(name) ?? 0)) await wait(50);
  last.set(name, Math.floor(Date.now() / 1000));
  return { accountId: name, ...(code ? { acr: 'gold', amr: ['pwd', 'otp', 'mfa'] } : { amr: ['pwd'] }) };
}

async function body(req) {
  let text = '';
  for await (const chunk of req) text += chunk;
  return new URLSearchParams(text);
}

const html = (res, status, text) => res.writeHead(status, { 'content-type': 'text/html' }).end(text);

// interact shows the form and takes it.
async function interact(req, res, uid) {
  const { prompt, params } = await provider.interactionDetails(req, res);
  const second = params.acr_values === 'gold';
  if (req.method !== 'POST') return html(res, 200, form(uid, false, second));
  const answer = await body(req);
  if (answer.get('do') === 'cancel') {
    return provider.interactionFinished(req, res, { error: 'access_denied', error_description: 'declined' }, { mergeWithLastSubmission: false });
  }
  const account = config.accounts[answer.get('name')];
  const code = answer.get('code');
  if (prompt.name !== 'login' || !account || answer.get('password') !== account.password || (code && !codes(account).includes(code))) {
    return html(res, 200, form(uid, true, second));
  }
  return provider.interactionFinished(req, res, { login: await authenticated(answer.get('name'), code) }, { mergeWithLastSubmission: false });
}

// A test asks for a token endpoint that fails: PUT /e2e/token with html, error or ok.
let token = 'ok';
async function control(req, res) {
  token = (await body(req)).get('answer');
  res.writeHead(204).end();
}

function fault(res) {
  if (token === 'html') return html(res, 200, page('Maintenance', ''));
  return res.writeHead(500).end();
}

provider.on('backchannel.error', (_, error, client) => console.log(`logout of ${client.clientId}: ${error.message} ${error.cause ?? ''}`));

const library = provider.callback();
createServer({ cert: readFileSync(config.cert), key: readFileSync(config.key) }, async (req, res) => {
  const { pathname } = new URL(req.url, config.issuer);
  try {
    if (pathname.startsWith('/sign-in/')) await interact(req, res, pathname.slice('/sign-in/'.length));
    else if (pathname === '/e2e/token') await control(req, res);
    else if (pathname === '/token' && token !== 'ok') fault(res);
    else library(req, res);
  } catch (error) {
    html(res, 400, page('Error', `<p>${error.name}</p>`));
  }
}).listen(config.port, '127.0.0.1', () => console.log('listening'));
