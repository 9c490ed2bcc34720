import { type DType, dtypes, operationNames, type Question, type Support } from "@backplane/core";
import { assert } from "chai";
import { openFake, throws } from "./support/fake-driver.js";

const arithmetic = ["add", "sub", "mul", "div", "max", "min"];
const comparisons = ["equal", "less"];

describe("supports()", () => {
  const open = async (...supports: readonly Support[]) => {
    const { backend } = await openFake({ kernels: { binary: { supports, run: () => {} } } });
    return backend;
  };

  it("answers for the whole question, not for each of its parts", async () => {
    const backend = await open(
      { dtype: ["f32"] },
      { dtype: ["i32", "u32"], kind: arithmetic },
      { dtype: ["f16"], kind: comparisons },
    );
    const expected: readonly (readonly [Question, boolean])[] = [
      [{}, true],
      [{ kind: "pow" }, true],
      [{ dtype: "i32", kind: "add" }, true],
      [{ dtype: "i32", kind: "pow" }, false],
      [{ dtype: "i32", kind: "less" }, false],
      [{ dtype: "f16", kind: "less" }, true],
      [{ dtype: "f16", kind: "add" }, false],
      [{ dtype: "f16" }, true],
      [{ dtype: "u8" }, false],
    ];
    for (const [question, supported] of expected)
      assert.equal(backend.supports("binary", question), supported, JSON.stringify(question));
    assert.deepEqual(backend.capabilities.dtypes, ["f32", "f16", "i32", "u32"]);
    await backend.dispose();
  });

  it("agrees with calls, of every type and kind", async () => {
    const backend = await open({ dtype: ["u32"], kind: ["mul"] }, { dtype: ["f32"], kind: ["equal"] });
    const a = backend.alloc(64);
    const b = backend.alloc(64);
    const call = { n: 3, a, b: a, output: b };
    for (const dtype of dtypes)
      for (const kind of ["mul", "equal", "pow"] as const) {
        const run = () => backend.binary({ ...call, kind, dtype: dtype as "u32" });
        if (backend.supports("binary", { dtype, kind })) run();
        else assert.include(throws("UNSUPPORTED", run).message, `binary: dtype ${dtype} with kind ${kind}`);
      }
    await backend.dispose();
  });

  it("is false for names and values that the operation does not know, and ignores undefined", async () => {
    const backend = await open({ dtype: true });
    for (const question of [
      { size: 3 },
      { dtype: "f64" as DType },
      { kind: "atan3" },
      { dtype: "bf16" as const },
      { activation: "relu" },
    ])
      assert.isFalse(backend.supports("binary", question), JSON.stringify(question));
    assert.isTrue(backend.supports("binary", { kind: undefined, dtype: undefined, size: undefined }));
    // What does not decide is no part of the answer.
    assert.isTrue(backend.supports("binary", { n: -1, shapeA: [3] }));
    for (const name of operationNames) if (name !== "binary") assert.isFalse(backend.supports(name), name);
    for (const question of [null, "add", 1, ["add"]])
      throws("INVALID_ARGUMENT", () => backend.supports("binary", question as never), "question");
    await backend.dispose();
  });

  it("leaves an element type open that follows from the kind", async () => {
    const supports = [{ dtype: ["u32"], kind: ["bits"] }];
    const { backend } = await openFake({ kernels: { random: { supports, run: () => {} } } });
    assert.isTrue(backend.supports("random", { kind: "bits" }));
    assert.isFalse(backend.supports("random", { kind: "uniform" }));
    const call = { count: 4, seed: 1, output: backend.alloc(16) };
    backend.random({ ...call, kind: "bits" });
    backend.random({ ...call, kind: "bits", dtype: "u32" });
    throws("UNSUPPORTED", () => backend.random({ ...call, kind: "uniform" }));
    await backend.dispose();
  });

  it("knows single values of an option", async () => {
    const run = () => {};
    const supports = [{ dtype: ["f32"], activation: ["relu", "silu"] }];
    const { backend } = await openFake({ kernels: { gemm: { supports, run } } });
    assert.isTrue(backend.supports("gemm", { activation: "silu" }));
    assert.isFalse(backend.supports("gemm", { activation: "gelu" }));
    assert.isFalse(backend.supports("gemm", { activation: "relu", bias: true }));
    const handle = backend.alloc(64);
    const args = { m: 1, n: 1, k: 1, a: handle, b: handle, c: backend.alloc(4) };
    backend.gemm({ ...args, activation: "relu" });
    const { message } = throws("UNSUPPORTED", () => backend.gemm({ ...args, activation: "gelu" }));
    assert.include(message, "gemm: dtype f32 with activation gelu is not available on fake");
    throws("INVALID_ARGUMENT", () => backend.gemm({ ...args, activation: "sine" as "relu" }), "activation");
    await backend.dispose();
  });
});
