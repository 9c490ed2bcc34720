// Tags: kernels, pure
import { normalPair } from "@backplane/conformance/functions";
import {
  type RandomKind,
  type RandomProblem,
  type RandomType,
  randomKinds,
  randomTypes,
} from "@backplane/core";
import { expect } from "chai";
import { createCpuBackend } from "#src/index.js";
import type { CpuMemory } from "#src/kernels/kernel.js";
import { random } from "#src/kernels/random/index.js";
import { describeEitherWay, Workbench } from "../workbench.js";
import { guardedBytes } from "./problems.js";

type Place = Pick<RandomProblem<unknown>, "key" | "counter" | "skip">;

const start: Place = { key: [7, 11], counter: [0, 0, 0, 0], skip: 0 };

const bytesOf: Readonly<Record<RandomType, number>> = { f32: 4, f16: 2, u32: 4, u8: 1 };

describeEitherWay("random kernels", (options) => {
  let bench: Workbench;
  beforeEach(async () => {
    bench = await Workbench.create(random.kernels, { ...options, workers: 3 });
  });

  function run(kind: RandomKind, dtype: RandomType, count: number, place: Place, offset = 0): ArrayBuffer {
    const { region, read } = guardedBytes(bench, count * bytesOf[dtype], offset * bytesOf[dtype]);
    const rest = { mean: 0, deviation: 1, threshold: kind === "bernoulli" ? 2 ** 31 : 0 };
    const problem: RandomProblem<CpuMemory> = { kind, dtype, count, ...place, ...rest, output: region };
    bench.run(random.plan(problem, bench.context));
    return read();
  }

  it("keep normal numbers within four units of the formula", () => {
    const count = 300_001;
    const all = new Uint32Array(run("bits", "u32", count + 3, start));
    const got = new Float32Array(run("normal", "f32", count, { ...start, skip: 1 }, 3));
    let most = 0;
    for (const [i, z] of got.entries()) {
      const at = i + 1;
      const exact = normalPair(all[at & ~1]!, all[at | 1]!)[at & 1]!;
      most = Math.max(most, Math.abs(z - exact) / Math.abs(exact) / 2 ** -23);
    }
    expect(most).to.be.within(0.5, 4);
  });

  it("write the same at every place of a vector, with any number of elements", () => {
    for (const kind of randomKinds)
      for (const dtype of randomTypes[kind]) {
        const size = bytesOf[dtype];
        const whole = new Uint8Array(run(kind, dtype, 80, start));
        for (let skip = 0; skip < 4; skip++)
          for (const count of [1, 2, 12, 13, 15, 16, 17, 29, 33, 64]) {
            const part = new Uint8Array(run(kind, dtype, count, { ...start, skip }, (skip + count) % 16));
            const expected = whole.subarray(skip * size, (skip + count) * size);
            expect(Buffer.compare(part, expected), `${count} of ${kind} ${dtype} from ${skip}`).to.equal(0);
          }
      }
  });

  it("carry through the words of the counter in any lane", () => {
    const top = 0xffffffff;
    for (let before = 1; before <= 5; before++) {
      const first = (top - before + 1) >>> 0;
      for (const [counter, after] of [
        [
          [first, 1, 2, 3],
          [0, 2, 2, 3],
        ],
        [
          [first, top, 2, 3],
          [0, 0, 3, 3],
        ],
        [
          [first, top, top, top],
          [0, 0, 0, 0],
        ],
      ] as const) {
        const across = new Uint32Array(run("bits", "u32", 40, { ...start, counter }));
        const behind = new Uint32Array(run("bits", "u32", 40 - 4 * before, { ...start, counter: after }));
        expect([...across.slice(4 * before)]).to.deep.equal([...behind]);
      }
    }
  });
});

describe("random on threads", () => {
  async function results(threads: number): Promise<Buffer> {
    await using backend = createCpuBackend({ threads });
    await backend.init();
    const parts: Buffer[] = [];
    for (const kind of randomKinds)
      for (const dtype of randomTypes[kind]) {
        const count = 100_003;
        const bytes = Buffer.alloc(count * bytesOf[dtype]);
        const output = backend.alloc(bytes.byteLength);
        backend.random({ kind, dtype, count, seed: 5, offset: 3, output });
        await backend.copyDtoH(bytes, output);
        parts.push(bytes);
      }
    return Buffer.concat(parts);
  }

  it("gives the same bits with 0, 1 and 2 threads", async () => {
    const inline = await results(0);
    expect(inline.equals(await results(1))).to.equal(true);
    expect(inline.equals(await results(2))).to.equal(true);
  });
});
