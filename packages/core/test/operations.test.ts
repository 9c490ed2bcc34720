import {
  BackendRegistry,
  type ComputeBackend,
  costOf,
  type DType,
  type GemmProblem,
  type OperationArguments,
  type OperationName,
  operationNames,
  operations,
  SwitchableBackend,
} from "@backplane/core";
import { assert } from "chai";
import { type FakeMemory, fakeProvider, openFake, throws } from "./support/fake-driver.js";
import { operandsOf, optionalNames, smallCall } from "./support/small-calls.js";

/** The arguments of one small call of an operation, on operands of 64 bytes each. */
function argumentsOf(backend: ComputeBackend, name: OperationName): Readonly<Record<string, unknown>> {
  return smallCall(name, () => backend.alloc(64));
}

function invoke(backend: ComputeBackend, name: OperationName, args: object): void {
  (backend[name].bind(backend) as (args: unknown) => void)(args);
}

function call(backend: ComputeBackend, name: OperationName, change: object = {}): void {
  invoke(backend, name, { ...argumentsOf(backend, name), ...change });
}

describe("operations of createBackend", () => {
  it("reach the kernel of the same name with a resolved problem", async () => {
    const { driver, backend } = await openFake();
    for (const name of operationNames) call(backend, name);
    assert.deepEqual(
      driver.runs.map((run) => run.operation),
      [...operationNames],
    );
    const problem = driver.runs[0]!.problem as GemmProblem<FakeMemory>;
    assert.deepInclude(problem, { m: 2, n: 2, k: 2, alpha: 1, beta: 0, lda: 2, batch: 1, dtype: "f32" });
    assert.isTrue(driver.live.has(problem.c.memory));
    await backend.dispose();
  });

  it("come with listeners that are functions", async () => {
    const { backend } = await openFake();
    for (const name of ["onLost", "onError"] as const)
      for (const listener of [undefined, null, "log", {}])
        assert.match(
          throws("INVALID_ARGUMENT", () => backend[name](listener as never), "listener").message,
          new RegExp(`^${name}: listener is .*; allowed: a function`),
        );
    await backend.dispose();
  });

  it("have names and operands that agree with the table", () => {
    for (const name of operationNames) assert.equal(operations[name].name, name);
    assert.deepEqual([...operationNames].sort(), Object.keys(operations).sort());
  });

  it("refuse names that they do not know, whatever stands there", async () => {
    const { driver, backend } = await openFake();
    for (const name of operationNames)
      for (const value of [true, undefined]) {
        const error = throws(
          "INVALID_ARGUMENT",
          () => call(backend, name, { strayName: value }),
          "strayName",
        );
        assert.equal(error.operation, name);
        assert.match(error.message, new RegExp(`^${name}: strayName is unknown; allowed: .*, dtype`));
      }
    const hint = throws("INVALID_ARGUMENT", () => call(backend, "gemm", { transposeB: true }), "transposeB");
    assert.include(
      hint.message,
      "transposeB is unknown (is transB meant?); allowed: m, n, k, a, b, c, alpha",
    );
    // A product that takes the arguments of many would compute the first one alone.
    throws("INVALID_ARGUMENT", () => call(backend, "gemm", { batch: 2 }), "batch");
    assert.throws(() => costOf("unary", { n: 4, kind: "neg", m: 1 } as never), /unary: m is unknown/);
    assert.isEmpty(driver.runs);
    await backend.dispose();
  });

  it("name what is misspelt, and not the argument that is missing for it", async () => {
    const { driver, backend } = await openFake();
    for (const name of operationNames) {
      const args = argumentsOf(backend, name);
      for (const [argument, value] of Object.entries(args)) {
        const stray = `${argument.toUpperCase()}s`;
        const { [argument]: _, ...others } = args;
        const error = throws(
          "INVALID_ARGUMENT",
          () => invoke(backend, name, { ...others, [stray]: value }),
          stray,
        );
        assert.match(error.message, new RegExp(`^${name}: ${stray} is unknown`));
      }
    }
    assert.isEmpty(driver.runs);
    await backend.dispose();
  });

  it("know all their names, also without a value, and mind no others than own enumerable ones", async () => {
    const { driver, backend } = await openFake();
    const hidden = { [Symbol("note")]: 1 };
    Object.defineProperty(hidden, "note", { value: 1, enumerable: false });
    for (const name of operationNames) {
      const optional = optionalNames(name);
      call(backend, name, Object.fromEntries(optional.map((option) => [option, undefined])));
      for (const option of optional) call(backend, name, { [option]: undefined });
      const [a, b] = [backend.alloc(64), backend.alloc(64)];
      if (name !== "unary") continue;
      const inherited = Object.create({ note: 1, n: 4 }) as object;
      backend.unary(Object.assign(inherited, hidden, { kind: "neg", input: a, output: b } as never));
      backend.unary(
        new (class {
          readonly kind = "neg";
          readonly input = a;
          readonly output = b;
          get n() {
            return 4;
          }
        })(),
      );
    }
    const calls = operationNames.reduce((sum, name) => sum + optionalNames(name).length + 1, 0);
    assert.lengthOf(driver.runs, calls + 2);
    await backend.dispose();
  });

  it("throw UNSUPPORTED exactly where supports() is false", async () => {
    const runs: string[] = [];
    const run = () => runs.push("ran");
    const { backend } = await openFake({
      kernels: {
        gemm: { supports: [{ dtype: ["f32"] }], run },
        unary: { supports: [{ dtype: ["f32", "f16"], kind: ["neg"] }], run },
        reduce: { supports: [{ dtype: ["f16"] }], run },
      },
    });
    assert.deepEqual(backend.capabilities.dtypes, ["f32", "f16"]);
    const expected: [OperationName, DType, string | undefined, boolean][] = [
      ["gemm", "f32", undefined, true],
      ["gemm", "f16", undefined, false],
      ["batchedGemm", "f32", undefined, false],
      ["unary", "f16", "neg", true],
      ["unary", "f16", "exp", false],
      ["unary", "f32", undefined, true],
      ["unary", "f32", "nonsense", false],
      ["reduce", "f16", "prod", true],
      ["reduce", "f16", "median", false],
      ["reduce", "f32", "sum", false],
      ["gemm", "f32", "sum", false],
    ];
    for (const [name, dtype, kind, supported] of expected)
      assert.equal(backend.supports(name, { dtype, kind }), supported, `${name} ${dtype} ${kind}`);
    assert.isFalse(backend.supports("nonsense" as OperationName));
    assert.isFalse(backend.supports("gemm", { dtype: "f64" as DType }));
    for (const name of ["toString", "constructor", "__proto__"] as unknown as OperationName[])
      assert.isFalse(backend.supports(name), name);
    for (const name of operationNames)
      for (const dtype of ["f32", "f16"] as const) {
        const kinds = operations[name].kinds ?? [undefined];
        for (const kind of kinds) {
          const change = kind === undefined ? { dtype } : { dtype, kind };
          if (backend.supports(name, { dtype, kind })) {
            runs.length = 0;
            call(backend, name, change);
            assert.deepEqual(runs, ["ran"]);
          } else throws("UNSUPPORTED", () => call(backend, name, change));
        }
      }
    await backend.dispose();
  });

  it("throw UNSUPPORTED for an epilogue that the driver does not declare, and never drop it", async () => {
    const problems: unknown[] = [];
    const run = (problem: unknown) => problems.push(problem);
    const { backend } = await openFake({
      kernels: {
        gemm: { supports: [{ dtype: ["f32"] }], run },
        batchedGemm: { supports: [{ dtype: ["f32"], bias: true, activation: true }], run },
        conv2d: { supports: [{ dtype: ["f32"] }], run },
      },
    });
    const bias = backend.alloc(64);
    assert.isFalse(backend.supports("gemm", { bias: true }));
    assert.isTrue(backend.supports("batchedGemm", { bias: true }));
    assert.isFalse(backend.supports("batchedGemm", { dtype: "f16", bias: true }));
    assert.isFalse(backend.supports("conv2d", { activation: "relu" }));
    assert.isTrue(backend.supports("conv2d", { bias: true }));
    const none = { dtype: "f32", bias: undefined, activation: undefined };
    const error = throws("UNSUPPORTED", () => call(backend, "gemm", { ...none, activation: "silu" }));
    assert.include(error.message, "gemm: dtype f32 with activation silu");
    throws("UNSUPPORTED", () => call(backend, "gemm", { ...none, bias }));
    throws("UNSUPPORTED", () => call(backend, "conv2d", { ...none, activation: "relu" }));
    // What no backend has is an error of the caller, here too.
    throws("INVALID_ARGUMENT", () => call(backend, "gemm", { ...none, activation: "sine" }), "activation");
    assert.isEmpty(problems);
    call(backend, "gemm", none);
    call(backend, "conv2d", { ...none, bias });
    call(backend, "batchedGemm", { ...none, bias, activation: "gelu" });
    assert.lengthOf(problems, 3);
    assert.deepInclude(problems[0], { bias: undefined, activation: undefined });
    assert.deepInclude(problems[2], { activation: "gelu" });
    await backend.dispose();
  });

  it("refuse malformed arguments before they ask whether there is a kernel", async () => {
    const { backend } = await openFake({ kernels: {} });
    for (const name of operationNames) {
      const method = backend[name].bind(backend) as (args: unknown) => void;
      for (const args of [undefined, null, 4, "gemm", [], [1]])
        throws("INVALID_ARGUMENT", () => method(args), "arguments");
      // The last two have no text.
      for (const dtype of ["f64", "constructor", 7, [], ["f32"], Object.create(null), [Symbol()]])
        throws("INVALID_ARGUMENT", () => call(backend, name, { dtype }), "dtype");
      throws("UNSUPPORTED", () => call(backend, name));
      throws("UNSUPPORTED", () => call(backend, name, { dtype: null }));
    }
    for (const inputTypes of ["f32", "bf16", { length: 1 }])
      throws("INVALID_ARGUMENT", () => call(backend, "map", { inputTypes }), "inputTypes");
    await backend.dispose();
  });

  it("cost nothing that can be told where there is no such operation, or no arguments", () => {
    for (const name of ["nonsense", "toString", 1, undefined] as unknown as "gemm"[])
      throws("INVALID_ARGUMENT", () => costOf(name, { m: 1 } as OperationArguments["gemm"]), "operation");
    for (const name of operationNames)
      throws("INVALID_ARGUMENT", () => costOf(name, undefined as never), "arguments");
  });

  it("check handles, alignment and bounds of every operand and enqueue nothing then", async () => {
    const { driver, backend } = await openFake();
    const stale = backend.alloc(64);
    backend.free(stale);
    const short = backend.alloc(4);
    const odd = { handle: backend.alloc(64), byteOffset: 2 };
    const bytes = [
      ...["quantizedGemm b", "quantizedGemm zeroPoints", "quantize b", "quantize zeroPoints"],
      "select condition",
    ];
    for (const name of operationNames)
      for (const operand of operations[name].operands as readonly string[]) {
        const isList = "list" in (operations[name].arguments as Readonly<Record<string, object>>)[operand]!;
        const argument = isList ? `${operand}[0]` : operand;
        const callWith = (value: unknown) => call(backend, name, { [operand]: isList ? [value] : value });
        throws("INVALID_HANDLE", () => callWith(stale), argument);
        // Bytes may lie anywhere.
        if (!bytes.includes(`${name} ${operand}`))
          throws("INVALID_ARGUMENT", () => callWith(odd), `${argument}.byteOffset`);
        throws("OUT_OF_BOUNDS", () => callWith({ handle: short, byteOffset: 4 }), argument);
        if (operandsOf(name).includes(operand)) throws("INVALID_HANDLE", () => callWith(undefined), argument);
      }
    assert.lengthOf(driver.runs, 0);
    await backend.dispose();
  });

  it("do not reach a kernel where there is nothing to compute", async () => {
    const { driver, backend } = await openFake();
    call(backend, "gemm", { m: 0 });
    call(backend, "batchedGemm", { batch: 0 });
    call(backend, "conv2d", { inputShape: [0, 1, 2, 2] });
    call(backend, "attention", { queryLength: 0 });
    call(backend, "reduce", { shape: [0, 3], axes: [1] });
    call(backend, "unary", { n: 0 });
    call(backend, "binary", { n: 0 });
    assert.lengthOf(driver.runs, 0);
    driver.calls.length = 0;
    call(backend, "reduce", { kind: "max", shape: [3, 0], axes: [1], dtype: "f16" });
    call(backend, "attention", { keyLength: 0 });
    assert.deepEqual(
      driver.calls.filter((entry) => entry.startsWith("fill")),
      ["fill 0 6 fc00fc00", "fill 0 16 0"],
    );
    await backend.dispose();
  });

  it("say what was probably meant where a number stands in place of an operand", async () => {
    const { backend: plain } = await openFake();
    const switchable = new SwitchableBackend(new BackendRegistry([fakeProvider("one")]));
    await switchable.init();
    const hint = "is the number 2, not a device handle: handles come from alloc()";
    for (const backend of [plain, switchable]) {
      const message = (change: object, name: OperationName = "binary") =>
        throws("INVALID_HANDLE", () => call(backend, name, change)).message;
      assert.equal(message({ b: 2 }), `binary: b ${hint}; for a scalar write { scalar: 2 }`);
      assert.equal(message({ output: 2 }), `binary: output ${hint}`);
      assert.equal(message({ a: 2 }, "gemm"), `gemm: a ${hint}`);
      assert.match(message({ a: { scalar: 2 } }, "gemm"), /^gemm: a is a scalar, which cannot stand here/);
      assert.match(message({ input: new Float32Array(4) }, "unary"), /^unary: input is Float32Array.*upload/);
      await backend.dispose();
    }
  });
});
