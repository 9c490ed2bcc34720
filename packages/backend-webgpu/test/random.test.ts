// Tags: kernels, pure
import { normalPair } from "@backplane/conformance/functions";
import { type RandomProblem, type RandomType, randomKinds, randomTypes } from "@backplane/core";
import { assert } from "chai";
import { random } from "#src/kernels/random/index.js";
import { advanced } from "#src/kernels/random/philox.js";
import { placeholder } from "#src/kernels/segments/index.js";
import type { KernelContext } from "#src/runtime/context.js";
import type { DeviceMemory } from "#src/runtime/memory.js";
import { dtypeBytes, portable, withDevice } from "./support.js";

type Problem = RandomProblem<DeviceMemory>;

const start = { key: [7, 11], counter: [0, 0, 0, 0], skip: 0, mean: 0, deviation: 1, threshold: 0 } as const;

const top = 0xffffffff;

interface Dispatch {
  readonly program: string;
  readonly parameterBytes: number;
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly byteOffset: number;
  readonly workgroups: unknown;
}

/** What a problem enqueues. */
function dispatched(given: Partial<Problem>, byteOffset = 0): readonly Dispatch[] {
  const problem: Problem = {
    ...{ ...start, kind: "bits", dtype: "u32", count: 100, output: placeholder(0) },
    ...given,
  };
  const byteLength = problem.count * dtypeBytes[problem.dtype];
  const dispatches: Dispatch[] = [];
  const context: KernelContext = {
    features: portable,
    dispatch(program, regions, parameters, workgroups) {
      const [region] = Object.values<{ byteOffset: number }>(regions);
      const { name, parameterBytes } = program;
      const { byteOffset } = region!;
      dispatches.push({ program: name, parameterBytes, parameters, workgroups, byteOffset });
    },
    scratch: placeholder,
    copy() {},
    fill() {},
  };
  random.run(context, { ...problem, output: { ...placeholder(byteLength), byteOffset } });
  return dispatches;
}

describe("webgpu random: what is enqueued", () => {
  it("is one dispatch, cut where the first word of the counter overflows", () => {
    assert.equal(dispatched({}).length, 1);
    assert.equal(dispatched({ counter: [top - 24, 0, 0, 0] }).length, 1);
    const [first, second, ...others] = dispatched({ counter: [top - 9, top, 5, 0], skip: 1 });
    assert.isEmpty(others);
    assert.include(first!.parameters, { count: 39, first: top - 9, shift: 1 });
    assert.include(second!.parameters, { count: 61, first: top, before: 3, shift: 1 });
    const [alone] = dispatched({ counter: [0, 0, 6, 0], count: 61 }, 4 * 39);
    assert.deepEqual(second, alone);
  });

  it("writes whole quads, wherever the output begins, and shifts words that do not fit them", () => {
    for (const [dtype, byteOffset, skip, expected] of [
      ["u32", 16, 0, { before: 0, first: 0, shift: 0, byteOffset: 16 }],
      ["u32", 24, 2, { before: 2, first: 0, shift: 0, byteOffset: 16 }],
      ["u32", 24, 3, { before: 2, first: 0, shift: 1, byteOffset: 16 }],
      ["u32", 24, 0, { before: 2, first: top, shift: 2, byteOffset: 16 }],
      ["f16", 14, 3, { before: 3, first: 0, shift: 0, byteOffset: 8 }],
      ["f16", 14, 0, { before: 3, first: top, shift: 1, byteOffset: 8 }],
      ["u8", 3, 3, { before: 3, first: 0, shift: 0, byteOffset: 0 }],
    ] as const) {
      const kind = { u32: "bits", f16: "uniform", u8: "bernoulli" } as const;
      const { parameters, byteOffset: at } = dispatched({ kind: kind[dtype], dtype, skip }, byteOffset)[0]!;
      const { before, first, shift } = parameters;
      assert.deepEqual({ before, first, shift, byteOffset: at }, expected, `${dtype} ${byteOffset} ${skip}`);
    }
  });

  it("takes parameters that travel fast, and no more than two programs for each kind and type", () => {
    const names = new Set<string>();
    for (const kind of randomKinds)
      for (const dtype of randomTypes[kind])
        for (let skip = 0; skip < 4; skip++)
          for (const { program, parameterBytes } of dispatched({ kind, dtype, skip })) {
            names.add(program);
            assert.isAtMost(parameterBytes, 64);
          }
    assert.equal(names.size, 12);
  });

  it("finds places further on in a sequence", () => {
    const place: Pick<Problem, "key" | "counter" | "skip"> = {
      key: [1, 2],
      counter: [top, top, 3, 4],
      skip: 3,
    };
    assert.deepEqual(advanced(place, 0), place);
    assert.deepEqual(advanced(place, 1), { ...place, counter: [0, 0, 4, 4], skip: 0 });
    assert.deepEqual(advanced(place, 2 ** 34), { ...place, counter: [top, 0, 4, 4] });
    assert.deepEqual(advanced({ ...place, counter: [top, top, top, top] }, 6).counter, [1, 0, 0, 0]);
  });
});

describe("webgpu random", () => {
  const device = withDevice();

  async function run(dtype: RandomType, given: Partial<Problem>, count: number): Promise<Uint8Array> {
    const byteLength = count * dtypeBytes[dtype];
    const memory = device().upload(new Uint8Array(byteLength));
    const output = { memory, byteOffset: 0, byteLength };
    device().run("random", { ...start, kind: "normal", count, output, ...given, dtype });
    const bytes = await device().download(memory, 0, byteLength);
    device().driver.free(memory);
    return bytes;
  }

  it("keeps normal numbers within six units of the formula", async () => {
    const count = 40_000;
    const words = new Uint32Array((await run("u32", { kind: "bits" }, count)).slice().buffer);
    const got = new Float32Array((await run("f32", {}, count)).slice().buffer);
    let most = 0;
    for (let i = 0; i < count; i += 2) {
      const exact = normalPair(words[i]!, words[i + 1]!);
      for (const side of [0, 1] as const) {
        const error = Math.abs(got[i + side]! - exact[side]) / Math.abs(exact[side]) / 2 ** -23;
        most = Math.max(most, error);
      }
    }
    assert.isAtLeast(most, 0.5);
    assert.isAtMost(most, 6);
  });
});
