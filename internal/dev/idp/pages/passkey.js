// Passkeys are the one thing here that needs JavaScript: the browser's answer is put into a form like any other.
"use strict";

for (const box of document.querySelectorAll("[data-passkey]")) {
  if (!window.PublicKeyCredential?.parseRequestOptionsFromJSON) continue;
  box.hidden = false;
  const [wrong, button, form] = [box.querySelector(".wrong"), box.querySelector("button"), box.querySelector("form")];
  button.addEventListener("click", async () => {
    wrong.hidden = true;
    button.disabled = true;
    try {
      form.elements.credential.value = JSON.stringify(await ceremony(box.dataset, form));
      form.submit();
    } catch (e) {
      wrong.textContent = e.name === "NotAllowedError" ? "No passkey was used. Try again." : e.message;
      wrong.hidden = false;
      button.disabled = false;
    }
  });
}

async function ceremony({ passkey, options }, form) {
  const body = new URLSearchParams(new FormData(form));
  body.set("username", document.getElementById("username")?.value ?? "");
  const answer = await fetch(options, { method: "POST", body });
  if (!answer.ok) throw new Error(await answer.text());
  const { publicKey } = await answer.json();
  return passkey === "create"
    ? navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(publicKey) })
    : navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(publicKey) });
}
