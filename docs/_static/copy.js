// A button on every block of code copies it, without prompts. No library, and nothing is fetched.
"use strict";

function selected(pre) {
  const range = document.createRange();
  range.selectNodeContents(pre);
  const selection = getSelection();
  selection.removeAllRanges();
  selection.addRange(range);
}

async function copied(pre) {
  const text = pre.textContent.replace(/^(\$|>>>|\.\.\.) /gm, "").trimEnd() + "\n";
  try {
    await navigator.clipboard.writeText(text);
    return "copied";
  } catch {
    selected(pre); // no right to write: the person presses the keys
    return "selected";
  }
}

document.addEventListener("DOMContentLoaded", () => {
  for (const pre of document.querySelectorAll(".bd-article div.highlight > pre")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "copy";
    button.setAttribute("aria-label", "copy this block");
    button.addEventListener("click", async () => {
      button.textContent = await copied(pre);
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    });
    pre.parentElement.append(button);
  }
});
