// Tags: proof, pure
import {
  type Capabilities,
  type ComputeBackend,
  ForwardingBackend,
  type Numerics,
  type Operand,
  type Operation,
  type OperationName,
  operationCall,
  operations,
  upload,
} from "@backplane/core";
import { assert } from "chai";
import { describe, it } from "mocha";
import { madeElsewhere } from "#src/compare/elsewhere.js";
import { replayOf } from "#src/compare/replay.js";
import { CompareBackend, type CompareOptions, createReferenceBackend, type Divergence } from "#src/index.js";
import { noPromises } from "./support/backends.js";

/** Its results are wrong, and it can be told what to declare and what to throw. */
class Wrong extends ForwardingBackend {
  promises: Partial<Numerics> = {};
  readsNow = true;
  fails = false;

  override get capabilities(): Capabilities {
    const { capabilities } = this.inner;
    return {
      ...capabilities,
      synchronousReads: this.readsNow,
      numerics: { ...capabilities.numerics, ...this.promises },
    };
  }

  override run(operation: OperationName | Operation, args: object): void {
    if (this.fails) throw new TypeError("a bug");
    super.run(operation, args);
    this.inner.fill((args as { readonly output: Operand }).output, 5, 1);
  }
}

async function open(first: ComputeBackend, second = createReferenceBackend(), options: CompareOptions = {}) {
  const backend = new CompareBackend(first, second, { warn: () => {}, ...options });
  await backend.init();
  return backend;
}

function negate(backend: ComputeBackend, value = 1): void {
  backend.unary({
    kind: "neg",
    n: 1,
    input: upload(backend, Float32Array.of(value)),
    output: backend.alloc(4),
  });
}

/** Runs a body, and returns the errors that nobody caught. */
async function uncaught(body: () => Promise<void>): Promise<readonly string[]> {
  const errors: string[] = [];
  const listeners = process.rawListeners("unhandledRejection");
  process.removeAllListeners("unhandledRejection");
  process.on("unhandledRejection", (error) => errors.push((error as Error).message));
  try {
    await body();
    // Errors that nobody caught are told after the microtasks.
    await new Promise((resolve) => setImmediate(resolve));
  } finally {
    process.removeAllListeners("unhandledRejection");
    for (const listener of listeners) process.on("unhandledRejection", listener as () => void);
  }
  return errors;
}

describe("What CompareBackend does where something fails", () => {
  it("goes on when a listener throws, and has each of its errors surface once", async () => {
    for (const readsNow of [true, false]) {
      const errors = await uncaught(async () => {
        const first = new Wrong(createReferenceBackend());
        first.readsNow = readsNow;
        const warn = (): never => {
          throw new Error("bug of the listener");
        };
        // Bytes that are never given back soon reach it.
        const backend = await open(first, createReferenceBackend(), { warn, mostWaitingBytes: 64 });
        const heard: Divergence[] = [];
        backend.onDivergence((divergence) => heard.push(divergence));
        for (let i = 0; i < 12; i++) {
          negate(backend);
          await backend.synchronize();
        }
        assert.deepInclude(backend.report(), { calls: 36, compared: 36, skipped: [], divergences: 12 });
        assert.lengthOf(heard, 12);
        await backend.dispose();
      });
      assert.deepEqual(errors, ["bug of the listener"]);
    }
  });

  it("counts no calls that were refused", async () => {
    const backend = await open(createReferenceBackend(), createReferenceBackend(), {
      every: 2,
      mostBytes: 64,
    });
    const handle = backend.alloc(128);
    assert.deepInclude(backend.report(), { calls: 1, compared: 0 });
    for (let i = 0; i < 3; i++) {
      assert.throws(() => backend.fill(handle, 1, 100), /fill/);
      assert.throws(() => backend.copyHtoD(handle, new Float32Array(100)), /copyHtoD/);
      assert.throws(() => backend.copyDtoD(handle, { handle, byteOffset: 4 }, 8), /copyDtoD/);
    }
    assert.deepInclude(backend.report(), { calls: 1, compared: 0 });
    backend.fill({ handle, byteOffset: 0 }, 1, 1);
    assert.throws(() => backend.fill(handle, 1, 100), /fill/);
    backend.fill(handle, 1, 1);
    assert.deepInclude(backend.report(), { calls: 3, compared: 0 });
    await backend.dispose();
  });

  it("holds a call to what was declared when it was made", async () => {
    for (const [atCall, later, divergences] of [
      [noPromises, {}, 0],
      [{}, noPromises, 1],
    ] as const) {
      const first = new Wrong(createReferenceBackend());
      first.readsNow = false;
      first.promises = atCall;
      const backend = await open(first);
      negate(backend, Number.POSITIVE_INFINITY);
      first.promises = later;
      await backend.synchronize();
      assert.equal(backend.report().divergences, divergences);
      await backend.dispose();
    }
  });

  it("copies no uploads that it does not compare, and those that it does before they change", async () => {
    const backend = await open(createReferenceBackend(), createReferenceBackend(), { mostBytes: 64 });
    const handle = backend.alloc(128);
    const { from } = Uint8Array;
    let copies = 0;
    Uint8Array.from = ((...given: Parameters<typeof from>) => {
      copies++;
      return from.apply(Uint8Array, given);
    }) as typeof from;
    try {
      backend.copyHtoD(handle, new Uint8Array(128));
      assert.equal(copies, 0);
    } finally {
      Uint8Array.from = from;
    }
    await backend.dispose();

    const first = new Wrong(createReferenceBackend());
    first.readsNow = false;
    const awaited = await open(first);
    const target = { handle: awaited.alloc(16), byteOffset: 4 };
    const bytes = Uint8Array.of(1, 2, 3, 4);
    awaited.copyHtoD(target, bytes);
    bytes.fill(9);
    target.byteOffset = 8;
    await awaited.synchronize();
    assert.deepInclude(awaited.report(), { calls: 2, compared: 2, divergences: 0, skipped: [] });
    await awaited.dispose();
  });

  it("counts calls that the second backend should have made, but threw at", async () => {
    const second = new Wrong(createReferenceBackend());
    second.fails = true;
    const backend = await open(createReferenceBackend(), second);
    negate(backend);
    negate(backend);
    assert.deepInclude(backend.report(), {
      ...{ calls: 6, compared: 6, divergences: 0 },
      skipped: [{ operation: "unary", reason: "the second backend threw an error without a code", calls: 2 }],
    });
    await backend.dispose();
  });

  it("finds a place for operands of which nothing is used", async () => {
    const backend = createReferenceBackend();
    await backend.init();
    const [input, output] = [backend.alloc(4), backend.alloc(4)];
    const args = { kind: "neg", n: 1, input: { handle: input, byteOffset: 0 }, output } as const;
    const watched = { name: "unary", args, uses: [], flops: 1, call: operationCall(operations.unary, args) };
    const patches = [{ handle: output, start: 0, length: 4, isWritten: true }];
    const before = [new Uint8Array(Float32Array.of(3).buffer)];
    const { bytes } = madeElsewhere(backend, watched, patches, before);
    assert.deepEqual([...bytes[0]!], [...new Uint8Array(Float32Array.of(-3).buffer)]);
    const place = { memory: 0, byteOffset: 0 };
    assert.deepInclude(replayOf(watched, patches, before).args, { input: place, output: place });
    await backend.dispose();
  });
});
