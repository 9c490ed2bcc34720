// Tags: kernels, pure
import { type TruthReduceKind, truthReduceKinds } from "@backplane/core";
import { assert } from "chai";
import { type Pattern, patterns, places, product } from "./shapes.js";
import { noise, random, withDevice } from "./support.js";

/** About half of the results are decided by a few elements; a true one has any bits. */
function truths(kind: TruthReduceKind, { kept, reduced }: Pattern): Uint8Array {
  const [outputs, count] = [product(kept), product(reduced)];
  const next = random(count);
  const share = Math.min(0.7 / count, 0.5);
  return Uint8Array.from({ length: outputs * count }, () => {
    const truth = 2 ** Math.floor(8 * next());
    return next() < share === (kind === "any") ? truth : 0;
  });
}

function expected(kind: TruthReduceKind, values: Uint8Array, { kept, reduced }: Pattern): number[] {
  const within = places(reduced);
  return places(kept).map((base) => {
    const isTrue = (place: number) => values[base + place] !== 0;
    return Number(kind === "any" ? within.some(isTrue) : within.every(isTrue));
  });
}

for (const tier of ["baseline", "subgroups"] as const)
  describe(`webgpu reduce of truth values in the tier ${tier}`, () => {
    const device = withDevice({ tier });

    for (const axes of patterns) {
      const text = (list: Pattern["kept"]) =>
        list.map(({ extent, stride }) => `${extent}:${stride}`).join(" ");
      it(`keeps [${text(axes.kept)}] and reduces [${text(axes.reduced)}], at any byte`, async () => {
        const [outputCount, reducedCount] = [product(axes.kept), product(axes.reduced)];
        for (const kind of truthReduceKinds) {
          const values = truths(kind, axes);
          for (const offset of [0, 3, 16]) {
            const input = device().place(values, "u8", offset);
            const before = noise(offset + outputCount + 32);
            const memory = device().upload(before);
            const output = { memory, byteOffset: offset, byteLength: outputCount };
            device().run("reduce", { dtype: "u8", kind, ...axes, outputCount, reducedCount, input, output });
            const after = await device().download(memory, 0, before.length);
            const results = [...after.subarray(offset, offset + outputCount)];
            after.set(before.subarray(offset, offset + outputCount), offset);
            assert.deepEqual(after, before, "other bytes changed");
            assert.deepEqual(results, expected(kind, values, axes), `${kind}, from byte ${offset} on`);
            for (const region of [input, output]) device().driver.free(region.memory);
          }
        }
      });
    }
  });
