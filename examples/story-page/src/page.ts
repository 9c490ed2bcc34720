import { byId, turn } from "@backplane/page/dom.js";
import { Session, type WritingOptions } from "./session.js";

/** What the page is doing, as `data-state` of the document for those who drive it. */
type State = "opening" | "empty" | "loading" | "ready" | "writing";

const names: Readonly<Record<string, string>> = { cpu: "the CPU", webgpu: "WebGPU" };

/** How long the page may stand still. */
const FRAME_MILLISECONDS = 16;

const form = byId<HTMLFormElement>("form");
const fieldset = byId<HTMLFieldSetElement>("fields");
const files = byId<HTMLInputElement>("files");
const fileNote = byId("file-note");
const loading = byId<HTMLProgressElement>("loading");
const write = byId<HTMLButtonElement>("write");
const stop = byId<HTMLButtonElement>("stop");
const swap = byId<HTMLButtonElement>("swap");
const pace = byId("pace");
const problem = byId("problem");
const story = byId("story");

const fileHint = fileNote.textContent!;
/** Names of the files of the model. */
let loaded = "";
let isStopped = false;
let isSwapping = false;

show("opening");
const session = await Session.open().catch((error: Error) => {
  report(error);
  throw error;
});
if (session.missing !== undefined)
  byId("missing").textContent = `There is no WebGPU here: ${session.missing}.`;
rest();

files.addEventListener("change", () => void take([...files.files!]));
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => {
  event.preventDefault();
  const isFree = ["empty", "ready"].includes(document.documentElement.dataset.state!);
  if (isFree && event.dataTransfer !== null) void take([...event.dataTransfer.files]);
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  void tell();
});
stop.addEventListener("click", () => {
  isStopped = true;
});
swap.addEventListener("click", () => void exchange());

function show(state: State): void {
  document.documentElement.dataset.state = state;
  fieldset.disabled = state !== "empty" && state !== "ready";
  write.disabled = state !== "ready";
  stop.disabled = state !== "writing";
  loading.hidden = state !== "loading";
  if (state === "opening") return;
  swap.disabled = isSwapping || state === "loading" || session.missing !== undefined;
  swap.textContent = `Go on with ${names[session.other]}`;
  pace.textContent = session.pace;
}

/** Nothing is under way. */
function rest(): void {
  fileNote.textContent = noteOfFiles();
  show(session.isReady ? "ready" : "empty");
}

function noteOfFiles(): string {
  const { waiting, isReady } = session;
  if (waiting !== undefined) return `${waiting} has no tokenizer: choose or drop its tokenizer.bin as well.`;
  return isReady ? loaded : fileHint;
}

function report(error: unknown): void {
  problem.textContent = (error as Error).message;
  problem.hidden = false;
}

/** Does something under a state, shows what goes wrong, and rests. */
async function during(state: State, body: () => Promise<void>): Promise<void> {
  problem.hidden = true;
  show(state);
  try {
    await body();
  } catch (error) {
    report(error);
  } finally {
    rest();
  }
}

async function take(given: readonly File[]): Promise<void> {
  await during("loading", async () => {
    loading.value = 0;
    await session.take(given, (fraction) => {
      loading.value = fraction;
    });
    loaded = given.map(({ name }) => name).join(", ");
  });
  // So that the same file can be chosen again.
  files.value = "";
}

async function tell(): Promise<void> {
  const options = readOptions();
  isStopped = false;
  await during("writing", async () => {
    story.replaceChildren(options.prompt);
    let part: HTMLElement | undefined;
    let held = "";
    let shownAt = Number.NEGATIVE_INFINITY;
    const flush = () => {
      part?.append(held);
      held = "";
    };
    for await (const { text, backend } of session.write(options)) {
      if (part?.dataset.backend !== backend) {
        flush();
        part = document.createElement("span");
        part.dataset.backend = backend;
        story.append(part);
        shownAt = Number.NEGATIVE_INFINITY;
      }
      held += text;
      if (performance.now() - shownAt < FRAME_MILLISECONDS) continue;
      flush();
      pace.textContent = session.pace;
      await turn();
      shownAt = performance.now();
      if (isStopped) break;
    }
    flush();
  });
}

async function exchange(): Promise<void> {
  const wasReady = session.isReady;
  isSwapping = true;
  swap.disabled = true;
  problem.hidden = true;
  await session.swap().catch(report);
  isSwapping = false;
  const state = document.documentElement.dataset.state as State;
  if (state === "ready" || state === "empty") rest();
  else show(state);
  if (wasReady && !session.isReady)
    report(new Error("The device was lost, and the model with it. Choose the model again."));
}

function readOptions(): WritingOptions {
  const data = new FormData(form);
  const number = (name: string) => Number(data.get(name));
  return {
    ...{ prompt: String(data.get("prompt")), tokens: number("tokens"), seed: number("seed") },
    ...{ temperature: number("temperature"), topP: number("top-p") },
  };
}
