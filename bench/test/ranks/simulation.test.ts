// Tags: pure
import { assert } from "chai";
import { algorithms, type Cluster, copySeconds, simulate } from "#src/ranks/simulation.js";

const counts = [1, 2, 3, 4, 7, 8, 13, 64];

/** All ranks as if on one host. */
const uniform: Cluster = {
  ranksPerHost: 1e9,
  local: { latency: 2e-6, bandwidth: 1e9 },
  remote: { latency: 1, bandwidth: 1 },
  down: 2e9,
  up: 4e9,
};

describe("the simulation of all-reduce", () => {
  for (const [name, steps] of Object.entries(algorithms))
    it(`${name}: leaves the sum on every rank`, () => {
      for (const ranks of counts) {
        // As many elements as parts: element e of rank r is 2^r, so that every missing or doubled one shows.
        const data = Array.from({ length: ranks }, (_, r) => new Float64Array(ranks).fill(2 ** (r % 50)));
        const sum = data.reduce((total, [value]) => total + value!, 0);
        for (const step of steps(ranks)) {
          const before = data.map((values) => values.slice());
          for (const { from, to, start, end, adds } of step)
            for (let e = Math.round(start * ranks); e < Math.round(end * ranks); e++)
              data[to]![e] = before[from]![e]! + (adds ? before[to]![e]! : 0);
        }
        for (const values of data) for (const value of values) assert.equal(value, sum, `${ranks} ranks`);
      }
    });

  it("agrees with the formulas where all connections are alike", () => {
    const { latency, bandwidth } = uniform.local;
    for (const ranks of counts)
      for (const bytes of [0, 1e3, 1e8]) {
        const ring = 2 * (ranks - 1) * (latency + bytes / ranks / bandwidth);
        assert.closeTo(simulate(algorithms.ring(ranks), ranks, bytes, uniform), ring, 1e-9 + 1e-9 * ring);
        const tree = 2 * Math.ceil(Math.log2(ranks)) * (latency + bytes / bandwidth);
        assert.closeTo(simulate(algorithms.tree(ranks), ranks, bytes, uniform), tree, 1e-9 + 1e-9 * tree);
      }
    assert.closeTo(copySeconds(4e9, uniform), 3, 1e-9);
  });

  it("shares the wires between hosts", () => {
    const remote = { latency: 0, bandwidth: 1e9 };
    const cluster = { ...uniform, ranksPerHost: 2, local: { latency: 0, bandwidth: 1e12 }, remote };
    // Both ranks of a host send to the other host at once.
    const crossing = [0, 1].map((from) => ({ from, to: from + 2, start: 0, end: 1, adds: true }));
    assert.closeTo(simulate([crossing], 4, 1e9, cluster), 2, 1e-9);
    assert.closeTo(simulate([crossing.slice(1)], 4, 1e9, cluster), 1, 1e-9);
  });
});
