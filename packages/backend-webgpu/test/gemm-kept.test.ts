// Tags: pure
import { activations } from "@backplane/core";
import { assert } from "chai";
import type { DeviceFeatures } from "#src/device/features.js";
import { defaultLimits } from "#src/device/tiers.js";
import { choiceFor, programFor } from "#src/kernels/gemm/kept.js";
import type { ResultForm } from "#src/kernels/gemm/results.wgsl.js";
import { selectGemm } from "#src/kernels/gemm/select.js";
import type { AlignedShape } from "#src/kernels/gemm/shape.js";
import { observeChoices } from "#src/kernels/variant.js";
import type { Program } from "#src/program/index.js";

const features: DeviceFeatures = {
  ...{ shaderF16: false, subgroups: false, subgroupMinSize: 0, subgroupMaxSize: 0, subgroupMatrices: [] },
  limits: defaultLimits,
};

function shapeOf(m: number, n: number, k: number, more: Partial<AlignedShape> = {}): AlignedShape {
  return {
    ...{ dtype: "f32", m, n, k, batch: 1, transA: false, transB: false, vectorA: true, vectorB: true },
    ...{ vectorC: true, wholeEights: false, eightsA: false, eightsB: false, ...more },
  };
}

describe("webgpu choices for products that are kept", () => {
  /** More than there is room for, so that some drive others out. */
  const shapes = [1, 7, 16, 64, 512].flatMap((m) =>
    [1, 24, 128, 1000, 4096].flatMap((n) =>
      [3, 64, 512, 2048].flatMap((k) =>
        [{}, { transB: true }, { vectorB: false }, { batch: 3 }].map((more) => shapeOf(m, n, k, more)),
      ),
    ),
  );

  it("are those that are made for each call, whatever was chosen before", () => {
    for (const forced of [undefined, "tiled_32x32x16_4x4"])
      for (const order of [shapes, shapes.toReversed()])
        for (const shape of order)
          for (let call = 0; call < 2; call++)
            assert.deepEqual(
              choiceFor({ ...shape }, features, forced).choice,
              selectGemm(shape, features, forced),
            );
  });

  it("are found again, and belong to one device", () => {
    const shape = shapeOf(48, 48, 48);
    const first = choiceFor(shape, features);
    assert.strictEqual(choiceFor({ ...shape }, features), first);
    const emulated = { ...features, family: { name: "software", isEmulated: true } };
    assert.notEqual(choiceFor(shape, emulated).choice.variant.name, first.choice.variant.name);
    assert.strictEqual(choiceFor(shape, features), first);
  });

  it("are each of one product: whatever differs makes another", () => {
    const shape = shapeOf(48, 48, 48);
    const differing: Required<Omit<AlignedShape, "m" | "n" | "k">> = {
      ...{ dtype: "f16", batch: 2, transA: true, transB: true, vectorA: false },
      ...{ vectorB: false, vectorC: false, wholeEights: true, eightsA: true, eightsB: true },
    };
    for (const [field, value] of Object.entries(differing)) {
      const kept = choiceFor(shape, features);
      assert.notStrictEqual(choiceFor({ ...shape, [field]: value }, features), kept, field);
    }
    // Some of these have the same slot.
    for (const field of ["m", "n", "k"] as const) {
      const kept = choiceFor(shape, features);
      for (let extent = 49; extent < 2048; extent++)
        assert.notStrictEqual(choiceFor({ ...shape, [field]: extent }, features), kept, `${field} ${extent}`);
    }
  });

  it("are made anew where there is tuning, and where somebody hears of them", () => {
    const shape = shapeOf(48, 48, 48);
    const before = choiceFor(shape, features);
    const tuned = { ...features, tuned: { variantFor: () => "tiled_64x64x16_8x8" } };
    assert.equal(choiceFor(shape, tuned).choice.variant.name, "tiled_64x64x16_8x8");
    const observed = { ...features };
    assert.strictEqual(choiceFor(shape, observed), choiceFor(shape, observed));
    const heard: string[] = [];
    observeChoices(observed, ({ variant }) => heard.push(variant));
    for (let call = 0; call < 2; call++) choiceFor(shape, observed);
    assert.deepEqual(heard, [before.choice.variant.name, before.choice.variant.name]);
  });

  it("have the program of the results that are asked for", () => {
    const kept = choiceFor(shapeOf(40, 40, 40), features);
    const plain: ResultForm = { dtype: "f32", target: "matrix", readsC: false };
    const forms: ResultForm[] = [
      plain,
      { ...plain, target: "scratch" },
      { ...plain, target: "scratch", readsC: true },
      { ...plain, bias: true },
      ...activations.map((activation): ResultForm => ({ ...plain, bias: true, activation })),
    ];
    let made = 0;
    for (const form of forms) {
      const program = { name: JSON.stringify(form) } as Program;
      for (let call = 0; call < 2; call++) {
        const found = programFor(kept, { ...form }, () => {
          made++;
          return program;
        });
        assert.strictEqual(found, program);
      }
    }
    assert.equal(made, forms.length);
  });
});
