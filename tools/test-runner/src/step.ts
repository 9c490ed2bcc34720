import { brokenDown, type Outcome } from "./outcome.js";

/** Runs part of a run, with a line before and after it. An error that it throws counts as a failure. */
export async function step(
  title: string,
  work: () => Promise<Outcome> | Outcome,
  write: (text: string) => void = (text) => process.stdout.write(text),
): Promise<Outcome> {
  write(`\n== ${title}\n`);
  const start = performance.now();
  let outcome: Outcome;
  try {
    outcome = await work();
  } catch (error) {
    console.error(error);
    outcome = brokenDown(`${title}: ${(error as Error).message}`);
  }
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  write(`== ${title}: ${outcome.failed === 0 ? "ok" : `${outcome.failed} failed`}, ${seconds} s\n`);
  return outcome;
}
