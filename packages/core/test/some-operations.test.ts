import {
  BackendError,
  createBackendOf,
  type DriverBackend,
  type DriverDescription,
  type KnownOperations,
  type Operation,
  operationNames,
  operations,
} from "@backplane/core";
import { binary } from "@backplane/core/operations/binary";
import { softmax } from "@backplane/core/operations/softmax";
import { unary } from "@backplane/core/operations/unary";
import { assert } from "chai";
import { FakeDriver } from "./support/fake-driver.js";

const known: KnownOperations = {
  operations: { unary, binary },
  advice: (operation) => `ask for ${operation}`,
};

function refusalOf(call: () => unknown): BackendError {
  try {
    call();
  } catch (error) {
    if (error instanceof BackendError) return error;
    throw error;
  }
  return assert.fail("nothing was refused");
}

describe("operationNames", () => {
  it("are those of the operations", () => {
    assert.sameMembers([...operationNames], Object.keys(operations));
  });
});

describe("createBackendOf", () => {
  let driver: FakeDriver;
  let backend: DriverBackend<unknown>;
  beforeEach(async () => {
    driver = new FakeDriver();
    // All but the kernel of binary.
    const { binary: _, ...kernels } = driver.kernels;
    Object.assign(driver, { kernels });
    backend = createBackendOf(driver, known);
    await backend.init();
  });
  afterEach(() => backend.dispose());

  it("checks what the driver's open returns if it is given the means", async () => {
    const seen: unknown[] = [];
    const checkDescription = (description: DriverDescription): void => void seen.push(description.limits);
    await using checked = createBackendOf(new FakeDriver(), { ...known, checkDescription });
    await checked.init();
    assert.deepEqual(seen, [checked.capabilities.limits]);
  });

  it("makes a backend that runs the operations that it was given, in every way of calling them", () => {
    const x = backend.alloc(16);
    const args = { kind: "relu", n: 4, input: x, output: x } as const;
    backend.unary(args);
    backend.run("unary", args);
    backend.run(unary, args);
    using recording = backend.record(() => backend.unary(args));
    recording.run();
    assert.deepEqual(
      driver.runs.map(({ operation }) => operation),
      ["unary", "unary", "unary", "unary"],
    );
    assert.deepEqual([backend.supports("unary"), backend.supports("binary")], [true, false]);
    assert.deepEqual(backend.capabilities.dtypes, ["f32", "f16"]);
  });

  it("knows of no other, even if the driver has a kernel: the advice is part of the error", () => {
    for (const call of [
      () => backend.softmax({} as never),
      () => backend.run("softmax", {} as never),
      () => backend.run(softmax as Operation, {}),
      () => backend.record(() => backend.softmax({} as never)),
    ]) {
      const { code, operation, message } = refusalOf(call);
      assert.deepEqual([code, operation], ["UNSUPPORTED", "softmax"]);
      assert.equal(message, "softmax: fake was made without it; ask for softmax");
    }
    assert.isFalse(backend.supports("softmax"));
    assert.isEmpty(driver.runs);
  });

  it("says of one that it knows, and the driver lacks, what any backend says", () => {
    const x = backend.alloc(16);
    const { code, message } = refusalOf(() => backend.binary({ kind: "add", n: 4, a: x, b: x, output: x }));
    assert.deepEqual(
      [code, message],
      ["UNSUPPORTED", "binary: dtype f32 with kind add is not available on fake; see supports()"],
    );
  });

  it("refuses names that core does not have, as any backend does", () => {
    const { message } = refusalOf(() => backend.run("nothing" as never, {} as never));
    assert.match(message, /^run: operation is "nothing"; allowed: gemm, /);
    assert.isFalse(backend.supports("nothing" as never));
  });
});
