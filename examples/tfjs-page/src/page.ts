import { byId, turn } from "@backplane/page/dom.js";
import { Plot } from "./plot.js";
import { type Step, Trainer } from "./trainer.js";

/** What the page is doing, as `data-state` of the document for those who drive it. */
type State = "opening" | "ready" | "training";

const names: Readonly<Record<string, string>> = { cpu: "the CPU", webgpu: "WebGPU" };

/** How long the page may stand still. */
const FRAME_MILLISECONDS = 16;

const form = byId<HTMLFormElement>("form");
const fields = byId<HTMLFieldSetElement>("fields");
const train = byId<HTMLButtonElement>("train");
const stop = byId<HTMLButtonElement>("stop");
const swap = byId<HTMLButtonElement>("swap");
const progress = byId<HTMLProgressElement>("progress");
const status = byId("status");
const problem = byId("problem");
let isSwapping = false;
const plot = new Plot(byId<SVGSVGElement & HTMLElement>("plot"));

show("opening");
const trainer = await Trainer.open().catch((error: Error) => {
  report(error);
  throw error;
});
if (trainer.missing !== undefined)
  byId("missing").textContent = `There is no WebGPU here: ${trainer.missing}.`;
show("ready");

form.addEventListener("submit", (event) => {
  event.preventDefault();
  void run();
});
stop.addEventListener("click", () => trainer.stop());
swap.addEventListener("click", () => void exchange());

function show(state: State): void {
  document.documentElement.dataset.state = state;
  fields.disabled = state !== "ready";
  train.disabled = state !== "ready";
  stop.disabled = state !== "training";
  progress.hidden = state !== "training";
  if (state === "opening") return;
  swap.disabled = isSwapping || trainer.missing !== undefined;
  swap.textContent = `Go on with ${names[trainer.other]}`;
  byId("device").textContent = trainer.device;
}

function report(error: unknown): void {
  problem.textContent = (error as Error).message;
  problem.hidden = false;
}

async function run(): Promise<void> {
  const steps = Number(new FormData(form).get("steps"));
  problem.hidden = true;
  plot.begin(steps);
  progress.max = steps;
  progress.value = 0;
  status.textContent = "";
  show("training");
  let shownAt = performance.now();
  let last: Step | undefined;
  try {
    const accuracy = await trainer.train(steps, async (step) => {
      last = step;
      plot.add(step);
      progress.value = step.number;
      status.textContent = `Step ${step.number} of ${steps}, loss ${step.loss.toFixed(4)}`;
      if (performance.now() - shownAt < FRAME_MILLISECONDS) return;
      await turn();
      shownAt = performance.now();
    });
    status.textContent =
      `After ${last!.number} steps the loss is ${last!.loss.toFixed(4)}, ` +
      `and ${(100 * accuracy).toFixed(1)}% of the test images are recognized.`;
  } catch (error) {
    report(error);
  } finally {
    show("ready");
  }
}

async function exchange(): Promise<void> {
  isSwapping = true;
  swap.disabled = true;
  problem.hidden = true;
  await trainer.swap().catch(report);
  isSwapping = false;
  show(document.documentElement.dataset.state as State);
}
