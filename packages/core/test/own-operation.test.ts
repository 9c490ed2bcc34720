import {
  type ArgumentsOf,
  type BackendProvider,
  BackendRegistry,
  type Binder,
  costOf,
  createBackend,
  type DType,
  defineOperation,
  type Operand,
  type Operation,
  type OwnKernel,
  type Region,
  SwitchableBackend,
} from "@backplane/core";
import { assert } from "chai";
import { FakeDriver, type FakeMemory, throws } from "./support/fake-driver.js";

const table = {
  kind: { role: "kind", kinds: { joined: "inputs one after another", added: "inputs added" } },
  n: { role: "extent" },
  /** Two of them. */
  inputs: { role: "reads", shape: "n each", list: true },
  output: { role: "writes", shape: "2 n, or n" },
  count: { role: "writes", shape: "1", otherwise: "not counted" },
  hint: { role: "choice", values: ["fast", "small"], otherwise: "none", option: true },
  dtype: { role: "elementType", types: ["f32", "f16"], default: "f32" },
} as const;

interface JoinProblem<Memory> {
  readonly dtype: DType;
  readonly kind: "joined" | "added";
  readonly n: number;
  readonly inputs: readonly Region<Memory>[];
  readonly output: Region<Memory>;
  readonly count: Region<Memory> | undefined;
}

type JoinArguments = ArgumentsOf<typeof table>;

/** With a list of operands, a second output that may be left out, kinds and an option. */
const join: Operation<JoinArguments, JoinProblem<unknown>> = defineOperation({
  name: "join",
  arguments: table,
  resolve(args, binder: Binder<unknown>, read) {
    const dtype = read.elementType("dtype", args.dtype, table.dtype);
    const kind = read.kind("kind", args.kind, ["joined", "added"]);
    const n = read.extent("n", args.n);
    read.choice("hint", args.hint, table.hint.values);
    const inputs = read.regions(binder, "inputs", args.inputs, [n, n], dtype);
    const output = read.region(binder, "output", args.output, kind === "joined" ? 2 * n : n, dtype);
    const count = read.optionalRegion(binder, "count", args.count, 1, dtype);
    for (const [i, region] of inputs.entries())
      read.disjoint({ argument: "output", region: output }, { argument: `inputs[${i}]`, region });
    return n === 0 ? undefined : { dtype, kind, n, inputs, output, count };
  },
  flops: ({ n }) => n,
});

function joinKernel(seen: JoinProblem<FakeMemory>[]): OwnKernel<JoinProblem<FakeMemory>> {
  return {
    operation: join,
    supports: [{ dtype: ["f32"], kind: ["joined"] }],
    run(problem) {
      seen.push(problem);
      const { inputs, output } = problem;
      let place = output.byteOffset;
      for (const { memory, byteOffset, byteLength } of inputs) {
        output.memory.bytes.set(memory.bytes.subarray(byteOffset, byteOffset + byteLength), place);
        place += byteLength;
      }
    },
  };
}

class JoiningDriver extends FakeDriver {
  readonly seen: JoinProblem<FakeMemory>[] = [];
  readonly ownKernels: readonly OwnKernel[] = [joinKernel(this.seen)];
}

const provider = (name: string): BackendProvider => ({
  name,
  probe: async () => ({ available: true, device: { kind: "other", name, software: false, details: {} } }),
  create: () => createBackend(new JoiningDriver({ name })),
});

async function open() {
  const driver = new JoiningDriver();
  const backend = createBackend(driver);
  await backend.init();
  return { driver, backend };
}

describe("an operation of somebody else", () => {
  it("runs by its kernel, on operands in a list", async () => {
    const { driver, backend } = await open();
    const [a, b, c] = [backend.alloc(8), backend.alloc(8), backend.alloc(32)];
    backend.copyHtoD(a, Float32Array.of(1, 2));
    backend.copyHtoD(b, Float32Array.of(3, 4));
    backend.run(join, { kind: "joined", n: 2, inputs: [a, b], output: { handle: c, byteOffset: 4 } });
    const result = new Float32Array(8);
    await backend.copyDtoH(result, c);
    assert.deepEqual([...result], [0, 1, 2, 3, 4, 0, 0, 0]);
    assert.isUndefined(driver.seen[0]!.count);
    assert.deepEqual(costOf(join, { kind: "joined", n: 2, inputs: [a, b], output: c, count: c }), {
      flops: 2,
      bytes: 36,
    });
    await backend.dispose();
  });

  it("has its arguments checked like those of core", async () => {
    const { driver, backend } = await open();
    const [a, b, c] = [backend.alloc(8), backend.alloc(8), backend.alloc(32)];
    const right: JoinArguments = { kind: "joined", n: 2, inputs: [a, b], output: c };
    const refused = (code: Parameters<typeof throws>[0], change: object, argument?: string) =>
      throws(code, () => backend.run(join, { ...right, ...change }), argument);
    refused("INVALID_ARGUMENT", { outptu: c }, "outptu");
    refused("INVALID_ARGUMENT", { n: -1 }, "n");
    refused("INVALID_ARGUMENT", { kind: "toString" }, "kind");
    refused("INVALID_ARGUMENT", { hint: "slow" }, "hint");
    refused("INVALID_ARGUMENT", { inputs: [a] }, "inputs");
    refused("INVALID_ARGUMENT", { inputs: a }, "inputs");
    refused("INVALID_HANDLE", { inputs: [a, 7 as Operand] }, "inputs[1]");
    refused("OUT_OF_BOUNDS", { inputs: [a, { handle: b, byteOffset: 4 }] }, "inputs[1]");
    refused("INVALID_ARGUMENT", { inputs: [a, c] }, "output");
    refused("UNSUPPORTED", { kind: "added" });
    refused("UNSUPPORTED", { dtype: "f16" });
    refused("UNSUPPORTED", { hint: "fast" });
    assert.isTrue(backend.supports(join, { kind: "joined" }));
    assert.isFalse(backend.supports(join, { kind: "added" }));
    assert.isFalse(backend.supports(join, { dtype: "f16" }));
    assert.isEmpty(driver.seen);
    await backend.dispose();
  });

  it("is UNSUPPORTED where there is no kernel for it, also under the name of one that there is", async () => {
    const { backend } = await open();
    const [a, b] = [backend.alloc(8), backend.alloc(8)];
    const twin = defineOperation({
      name: "join",
      arguments: { input: { role: "reads", shape: "1" } },
      resolve: () => undefined,
      flops: () => 0,
    });
    assert.isFalse(backend.supports(twin));
    throws("UNSUPPORTED", () => backend.run(twin, { input: a }));
    for (const given of ["join", "toString", undefined, {}])
      throws("INVALID_ARGUMENT", () => backend.run(given as never, { input: b } as never), "operation");
    await backend.dispose();
  });

  it("is refused twice in one driver", () => {
    const driver = new JoiningDriver();
    const twice = Object.assign(driver, { ownKernels: [...driver.ownKernels, ...driver.ownKernels] });
    throws("INVALID_ARGUMENT", () => createBackend(twice), "ownKernels");
  });

  it("runs through a swap, with the handles of the switchable backend", async () => {
    const backend = new SwitchableBackend(new BackendRegistry([provider("one"), provider("two")]));
    await backend.init();
    const [a, b, c] = [backend.alloc(8), backend.alloc(8), backend.alloc(16)];
    backend.copyHtoD(a, Float32Array.of(1, 2));
    backend.copyHtoD(b, Float32Array.of(3, 4));
    const args = { kind: "joined", n: 2, inputs: [a, b], output: c } as const;
    backend.run(join, args);
    const swapping = backend.use("two");
    // Kept back or not, it comes before the read.
    const inputs = [b, a];
    backend.run(join, { ...args, inputs });
    inputs.length = 0;
    const result = new Float32Array(4);
    await Promise.all([backend.copyDtoH(result, c), swapping]);
    assert.deepEqual([...result], [3, 4, 1, 2]);
    assert.equal(backend.current, "two");
    backend.run(join, args);
    await backend.copyDtoH(result, c);
    assert.deepEqual([...result], [1, 2, 3, 4]);
    assert.isTrue(backend.supports(join, { kind: "joined" }));
    await backend.dispose();
  });
});
