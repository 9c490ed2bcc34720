/**
 * An anchor that does nothing, in as long as the case it is given says, or with `warmUp` in as long as it is told
 * to warm up: for tests of the protocol. `leave` makes it end in the middle of a question, `tire` after two samples.
 */
import { createInterface } from "node:readline";

console.log("a line that a library printed");
let seconds: number | undefined;
let echoes = false;
let left = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const {
    do: what,
    problem,
    warmUp,
  } = JSON.parse(line) as {
    do: string;
    problem?: { seconds?: number; warmUp?: boolean; leave?: boolean; tire?: boolean };
    warmUp?: number;
  };
  if (problem?.leave === true) process.exit(3);
  if (what === "open") {
    seconds = problem?.seconds;
    echoes = problem?.warmUp === true;
    left = problem?.tire === true ? 2 : Number.POSITIVE_INFINITY;
  }
  if (what === "sample" && left-- === 0) process.exit(3);
  if (what === "about") answer({ name: "idle" });
  else if (what === "sample") answer({ seconds: echoes ? warmUp : seconds });
  else if (what === "open" && seconds === undefined) answer({ error: "no such operation" });
  else answer({});
}

function answer(value: Readonly<Record<string, unknown>>): void {
  console.log(JSON.stringify(value));
}
