import { createCpuBackend } from "@backplane/backend-cpu";
import type { ComputeBackend } from "@backplane/core";
import { expect } from "chai";
import type { Case } from "#src/cases/case.js";
import { unary } from "#src/cases/elementwise.js";
import { gemm } from "#src/cases/gemm.js";
import type { Expectations } from "#src/contender.js";
import { bestInstruction, Ceiling } from "#src/cpu/ceiling.js";
import { compareRow } from "#src/cpu/compare.js";
import type { Peer } from "#src/cpu/peer.js";

const turns = { pace: { sample: 0, warmUp: 0 }, rounds: 3 };
const test = unary("relu", 64);

/** A peer that computes relu on the host, and goes wrong as asked. */
class FakePeer implements Peer {
  readonly name = "onnxruntime-web";
  readonly version = "1";
  readonly threads = 1;
  readonly note = "";
  opened = 0;
  readonly #spoil: (result: Float32Array) => Float32Array;
  readonly #calls: number;

  constructor(
    spoil: (result: Float32Array) => Float32Array = (result) => result,
    calls = Number.POSITIVE_INFINITY,
  ) {
    this.#spoil = spoil;
    this.#calls = calls;
  }

  async open({ inputs: sizes }: Case, inputs: Expectations["inputs"]): ReturnType<Peer["open"]> {
    this.opened++;
    let calls = 0;
    return {
      how: "by hand",
      call: () => {
        if (++calls > this.#calls) throw new Error("tired");
      },
      read: async () => this.#spoil(inputs.input!.toArray(sizes.input!).map((x) => Math.max(x, 0))),
      close: () => {
        this.opened--;
      },
    };
  }
}

describe("comparing with peers", () => {
  let backend: ComputeBackend;
  before(async () => {
    backend = createCpuBackend({ threads: 1 });
    await backend.init();
  });
  after(() => backend.dispose());
  afterEach("nothing is left allocated", () => {
    expect(backend.memory().liveBytes).to.equal(0);
  });

  const compare = (peer: Peer, row = { test, goal: 2, scales: false }) =>
    compareRow(row, { backend, threads: 1, peers: [peer] }, turns);

  it("times ours and a right peer as often as asked for, and forms the ratio of each round", async () => {
    const peer = new FakePeer();
    const { row, missing } = await compare(peer);
    expect(missing).to.deep.equal([]);
    expect(row).to.include({ case: test.name, threads: 1, goal: 2, operation: "unary" });
    expect(row!.ours.samples).to.have.length(3);
    const [times] = row!.peers;
    expect(times).to.include({ name: "onnxruntime-web", how: "by hand", worstError: 0 });
    const ratios = times!.samples.map((seconds, i) => seconds / row!.ours.samples[i]!).sort((a, b) => a - b);
    expect(times!.ratio).to.be.closeTo(ratios[1]!, 1e-12 * ratios[1]!);
    expect(times!.bestRatio).to.be.closeTo(times!.best / row!.ours.best, 1e-12);
    expect(peer.opened).to.equal(0);
  });

  it("refuses a peer whose result is wrong, short, not a number, or of another case", async () => {
    const wrong: readonly [(result: Float32Array) => Float32Array, RegExp][] = [
      [(result) => result.with(63, 7), /^element 63 is 7, expected /],
      [(result) => result.map((x) => x * 1.001), /^element \d+ is /],
      [(result) => result.fill(Number.NaN), /^element 63 is NaN/],
      [(result) => result.subarray(1), /^the result has 63 elements, expected 64$/],
      [(result) => result.fill(0), /^element \d+ is 0, expected /],
    ];
    for (const [spoil, reason] of wrong) {
      const peer = new FakePeer(spoil);
      const { row, missing } = await compare(peer);
      expect(row!.peers).to.deep.equal([]);
      expect(row!.ours.samples).to.have.length(3);
      expect(missing).to.have.length(1);
      expect(missing[0]).to.include({ case: test.name, threads: 1, name: "onnxruntime-web" });
      expect(missing[0]!.reason).to.match(reason);
      expect(peer.opened).to.equal(0);
    }
  });

  it("accepts a peer that is less accurate than ours has to be, and tells by how much", async () => {
    const { row, missing } = await compare(
      new FakePeer((result) => result.map((x) => x * (1 + 20 * 2 ** -23))),
    );
    expect(missing).to.deep.equal([]);
    expect(row!.peers[0]!.worstError).to.be.within(2, 3);
  });

  it("goes on without a peer that cannot do the case, or ends on the way", async () => {
    const tired = new FakePeer(undefined, 3);
    const { row, missing } = await compare(tired);
    expect(row!.peers).to.deep.equal([]);
    expect(row!.ours.samples).to.have.length(3);
    expect(missing.map(({ reason }) => reason)).to.deep.equal(["tired"]);
    expect(tired.opened).to.equal(0);

    const unable = Object.assign(new FakePeer(), { open: () => Promise.reject(new Error("no relu")) });
    expect((await compare(unable)).missing.map(({ reason }) => reason)).to.deep.equal(["no relu"]);
  });

  it("gives no row where ours is wrong", async () => {
    const wrong: Case = { ...test, expected: () => ({ value: 7, tolerance: 0 }) };
    const { row, missing } = await compare(new FakePeer(), { test: wrong, goal: 2, scales: false });
    expect(row).to.equal(undefined);
    expect(missing).to.have.length(1);
    expect(missing[0]!.name).to.equal("backplane");
    expect(missing[0]!.reason).to.match(/^element 63 is .*, expected 7 \+- 0$/);
  });

  it("sets products beside the ceiling and beside one thread", async () => {
    const product = { test: gemm(32, 32, 32), goal: 2, scales: true };
    const ceiling = new Ceiling(1, bestInstruction());
    try {
      const { row, missing } = await compareRow(
        product,
        { backend, threads: 1, peers: [], single: backend, ceiling },
        { pace: { sample: 0.001, warmUp: 0 }, rounds: 3 },
      );
      expect(missing).to.deep.equal([]);
      expect(row!.scaling!.ratio).to.be.above(0);
      expect(row!.ceiling!.flopsPerSecond).to.be.above(0);
      expect(row!.ceiling!.ratio).to.be.above(0);
    } finally {
      await ceiling.close();
    }
  });
});
