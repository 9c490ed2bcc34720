import { assert } from "chai";
import { type Bytes, Graph, type Step, type Version } from "#src/graph.js";

/** A step that adds one to the first byte and counts how often it is taken. */
function increment(previous: Version | undefined, taken: { count: number }, keptBytes = 0): Step {
  const apply = (bytes: Bytes): void => {
    taken.count++;
    bytes[0]!++;
  };
  return { previous, inputs: [], keptBytes, apply };
}

/** A line of versions, each held by the next one only, and the last by the caller. */
function line(graph: Graph, length: number, taken: { count: number }): Version {
  let last = graph.add(increment(undefined, taken), 8);
  for (let i = 1; i < length; i++) {
    const next = graph.add(increment(last, taken), 8);
    graph.release(last);
    last = next;
  }
  return last;
}

describe("the graph of versions", () => {
  it("computes nothing before it is asked, and each step once", () => {
    const graph = new Graph();
    const taken = { count: 0 };
    const last = line(graph, 5, taken);
    assert.equal(taken.count, 0);
    assert.equal(graph.bytesOf(last)[0], 5);
    assert.equal(graph.bytesOf(last)[0], 5);
    assert.equal(taken.count, 5);
    assert.equal(graph.pendingSteps, 0);
  });

  it("never computes what nobody wants any more", () => {
    const graph = new Graph();
    const taken = { count: 0 };
    const before = line(graph, 3, taken);
    const last = graph.add(increment(before, taken, 100), 8);
    graph.release(before);
    assert.deepEqual([graph.pendingSteps, graph.keptBytes], [4, 100]);
    graph.release(last);
    assert.deepEqual([graph.pendingSteps, graph.keptBytes, graph.heldBytes, taken.count], [0, 0, 0, 0]);
  });

  it("keeps a version as it is for whoever holds it", () => {
    const graph = new Graph();
    const taken = { count: 0 };
    const first = line(graph, 1, taken);
    const second = graph.add(increment(first, taken), 8);
    assert.equal(graph.bytesOf(second)[0], 2);
    assert.equal(graph.bytesOf(first)[0], 1);
    assert.equal(graph.heldBytes, 16);
    graph.release(first);
    // Nobody else wants the second: the third takes its bytes over.
    const third = graph.add(increment(second, taken), 8);
    graph.release(second);
    assert.equal(graph.bytesOf(third)[0], 3);
    assert.equal(graph.heldBytes, 8);
    graph.release(third);
    assert.equal(graph.heldBytes, 0);
  });

  it("takes lines that are longer than the stack of calls, and drops them", () => {
    const graph = new Graph();
    const taken = { count: 0 };
    const wanted = line(graph, 200_000, taken);
    const unwanted = line(graph, 200_000, taken);
    assert.equal(graph.bytesOf(wanted)[0], 200_000 % 256);
    graph.release(unwanted);
    assert.equal(taken.count, 200_000);
    assert.equal(graph.pendingSteps, 0);
  });

  it("has no bytes for what failed, nor for what comes of it", () => {
    const graph = new Graph();
    const taken = { count: 0 };
    const apply = (): never => {
      throw new RangeError("no room");
    };
    const first = line(graph, 1, taken);
    const failed = graph.add({ previous: first, inputs: [], keptBytes: 0, apply }, 8);
    const after = graph.add(increment(failed, taken), 8);
    for (const version of [after, failed, after]) assert.throws(() => graph.bytesOf(version), "no room");
    assert.equal(graph.bytesOf(first)[0], 1);
    assert.equal(taken.count, 1);
    for (const version of [first, failed, after]) graph.release(version);
    assert.deepEqual([graph.heldBytes, graph.pendingSteps], [0, 0]);
  });
});
