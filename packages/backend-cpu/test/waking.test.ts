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

  it("shows the others no command of one chunk, if a worker comes to it from another command", () => {
    const control = controlWith(0, 0);
    const chunks = [1, 1, 2, 1, 1];
    for (const count of chunks) publish(control, { kernel: 0, chunks: count, helpers: 1, block: [] });
    const unfinished: number[] = [];
    const completed: number[] = [];
    work(
      control,
      () => {
        unfinished.push(control[words.unfinished]!);
        completed.push((control[words.completed]! - firstSequence) | 0);
        if (unfinished.length === 6) close(control);
      },
      () => {},
    );
    expect(unfinished).to.deep.equal([1, 0, 2, 1, 0, 0]);
    expect(completed).to.deep.equal([0, 1, 2, 2, 3, 4]);
  });

  it("tells the work that is worth several workers", () => {
    expect(helpersFor(8, 0)).to.equal(1);
    expect(helpersFor(8, 39_999)).to.equal(1);
    expect(helpersFor(8, 40_000)).to.equal(2);
    expect(helpersFor(8, 1e9)).to.equal(8);
    expect(helpersFor(8, Number.POSITIVE_INFINITY)).to.equal(8);
    expect(helpersFor(0, 1e9)).to.equal(1);
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
