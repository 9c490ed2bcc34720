import { expect } from "chai";
import { defineKernel, helpersFor } from "#src/kernels/kernel.js";
import {
  close,
  controlBytes,
  firstSequence,
  initialise,
  publish,
  sharedWorkIsAhead,
  words,
  work,
} from "#src/queue/protocol.js";

/** A queue whose workers are numbers in its memory: some sleep, some are awake and free. */
function controlWith(sleepers: number, free: number): Int32Array {
  const control = new Int32Array(new SharedArrayBuffer(controlBytes));
  initialise(control, 2);
  control[words.sleepers] = sleepers;
  control[words.free] = free;
  return control;
}

function wakes(sleepers: number, free: number, helpers: number): boolean {
  const control = controlWith(sleepers, free);
  publish(control, { kernel: 0, chunks: 8, helpers, block: [] });
  expect(control[words.remaining]).to.equal(8);
  return control[words.signal] === 1;
}

describe("Waking workers", () => {
  it("wakes for a command only those who are missing", () => {
    expect(wakes(2, 0, 1)).to.equal(true);
    expect(wakes(1, 1, 2)).to.equal(true);
    expect(wakes(1, 1, 1)).to.equal(false);
    expect(wakes(1, 2, 2)).to.equal(false);
    expect(wakes(0, 0, 2)).to.equal(false);
  });

  it("sees commands that are worth several workers after the current one, not too far ahead", () => {
    const control = controlWith(0, 0);
    const add = (helpers: number, count = 1): void => {
      for (let i = 0; i < count; i++) publish(control, { kernel: 0, chunks: 2, helpers, block: [] });
    };
    expect(sharedWorkIsAhead(control)).to.equal(false);
    add(2);
    // The current one is to be found in other words.
    expect(sharedWorkIsAhead(control)).to.equal(false);
    add(1, 15);
    expect(sharedWorkIsAhead(control)).to.equal(false);
    add(2);
    expect(sharedWorkIsAhead(control)).to.equal(false);
    control[words.completed]!++;
    expect(sharedWorkIsAhead(control)).to.equal(true);
    control[words.completed]! += 15;
    expect(sharedWorkIsAhead(control)).to.equal(false);
  });

  it("leaves a processor to the caller, and one worker at the least", () => {
    const most = (processors: number): number => {
      const control = new Int32Array(new SharedArrayBuffer(controlBytes));
      initialise(control, processors);
      return control[words.mostLookers]!;
    };
    expect([1, 2, 3, 8].map(most)).to.deep.equal([1, 1, 2, 7]);
  });

  it("shows the others no command that is for one worker, if it comes from another command", () => {
    const control = controlWith(0, 0);
    const add = (chunks: number, helpers: number) =>
      publish(control, { kernel: 0, chunks, helpers, block: [] });
    add(1, 0);
    add(3, 0);
    add(2, 1);
    add(1, 0);
    add(1, 0);
    const seen: { chunk: number; unfinished: number; completed: number }[] = [];
    work(
      control,
      (_kernel, _block, chunk) => {
        const completed = (control[words.completed]! - firstSequence) | 0;
        seen.push({ chunk, unfinished: control[words.unfinished]!, completed });
        if (completed === 4) close(control);
      },
      () => {},
    );
    expect(seen).to.deep.equal([
      { chunk: 0, unfinished: 1, completed: 0 },
      { chunk: 0, unfinished: 0, completed: 1 },
      { chunk: 1, unfinished: 0, completed: 1 },
      { chunk: 2, unfinished: 0, completed: 1 },
      { chunk: 0, unfinished: 2, completed: 2 },
      { chunk: 1, unfinished: 1, completed: 2 },
      { chunk: 0, unfinished: 0, completed: 3 },
      { chunk: 0, unfinished: 0, completed: 4 },
    ]);
  });

  it("tells the work that is worth several workers", () => {
    expect(helpersFor(8, 0)).to.equal(0);
    expect(helpersFor(8, 4999)).to.equal(0);
    expect(helpersFor(8, 5000)).to.equal(1);
    expect(helpersFor(8, 39_999)).to.equal(1);
    expect(helpersFor(8, 40_000)).to.equal(2);
    expect(helpersFor(8, 1e9)).to.equal(8);
    expect(helpersFor(8, Number.POSITIVE_INFINITY)).to.equal(8);
    expect(helpersFor(1, 1e9)).to.equal(0);
  });

  it("launches with parameters by name and by position alike", () => {
    const parameters = { a: "i32", b: "f32", c: "i32" } as const;
    const kernel = defineKernel({ name: "kernel", parameters, emit: () => {} });
    const byName = kernel.launch({ c: -1, b: 1.5, a: 7 }, 4, 1e5);
    expect(byName).to.deep.equal({
      kernel: "kernel",
      words: [7, 0x3fc00000, -1],
      chunks: 4,
      helpers: 4,
      nanoseconds: 1e5,
    });
    expect(kernel.launchList([7, 1.5, -1], 4, 1e5)).to.deep.equal(byName);
    expect(() => kernel.launchList([7, 1.5], 4)).to.throw(RangeError, /takes 3 parameters, not 2/);
  });
});
