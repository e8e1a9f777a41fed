#!/usr/bin/env node
// A burst the way of a team that picks graphile-worker: as many cron items as asked for, all of them due at the next
// full minute. Nobody works on the jobs. Prints how many there were, and the milliseconds from that minute until the
// last was committed, by the database clock.
import { EventEmitter } from "node:events";
import pg from "pg";
import { Logger, parseCronItems, run } from "graphile-worker";

const [count, url] = [Number(process.argv[2]), process.argv[3]];
const pool = new pg.Pool({ connectionString: url, max: 4 });
pool.on("error", (error) => { throw error; });
pool.on("connect", (client) => client.on("error", (error) => { throw error; }));
const events = new EventEmitter();

const scheduled = new Promise((resolve) => events.on("cron:scheduled", ({ timestamp }) => resolve(Number(timestamp))));
const items = Array.from({ length: count }, (_, i) => ({ task: "job", match: "* * * * *", identifier: `t-${String(i).padStart(5, "0")}` }));
const runner = await run({
	pgPool: pool,
	events,
	noHandleSignals: true,
	taskList: { elsewhere: async () => {} },
	parsedCronItems: parseCronItems(items),
	logger: new Logger(() => (level, message) => level === "error" && console.error(message)),
});
const due = await scheduled;
const { rows } = await pool.query("SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms");
console.log(count, Number(rows[0].ms) - due);
await runner.stop();
await pool.end();
process.exit(0);
