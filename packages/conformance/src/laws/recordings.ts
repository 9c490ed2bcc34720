import {
  type ComputeBackend,
  type DeviceHandle,
  type DType,
  type Operand,
  operationNames,
} from "@backplane/core";
import { bytesOf, check, pattern, refuses, rejects, sameBytes, withAllocations } from "../kit/checks.js";
import type { Law } from "../law.js";
import { settled } from "../patience.js";
import { operandSize } from "./bench.js";
import {
  invoke,
  mediumCalls,
  operandBytes,
  operandType,
  smallCalls,
  supportedTypes,
  type TestCall,
  unlessSupported,
} from "./calls.js";
import { lose } from "./loss-support.js";
import { recordingLaw as law, openSwitchable, withoutRecord } from "./recordings-support.js";

/** Integers that wrap: exact on every backend. */
function canAdd(backend: ComputeBackend): boolean {
  return backend.supports("binary", { kind: "add", dtype: "i32" });
}

/** Adds a number to each of the first elements of an allocation. */
function addTo(backend: ComputeBackend, place: Operand, count: number, scalar: number): void {
  backend.binary({ kind: "add", dtype: "i32", n: count, a: place, b: { scalar }, output: place });
}

async function integersAt(backend: ComputeBackend, place: Operand, count: number): Promise<Int32Array> {
  return new Int32Array((await bytesOf(backend, place, 4 * count)).buffer);
}

async function holds(
  backend: ComputeBackend,
  place: Operand,
  expected: readonly number[],
  what: string,
): Promise<void> {
  const got = [...(await integersAt(backend, place, expected.length))];
  check(
    got.every((value, i) => value === expected[i]),
    `${what}: got ${got.join(", ")}, expected ${expected.join(", ")}`,
  );
}

/** The operands of a call, each in an allocation of its own. */
type Places = Readonly<Record<string, DeviceHandle>>;

function allocated(backend: ComputeBackend, call: TestCall, dtype: DType): Places {
  return Object.fromEntries(
    Object.keys(call.operands).map((name) => [name, backend.alloc(operandSize(call, dtype, name))]),
  );
}

function write(backend: ComputeBackend, call: TestCall, dtype: DType, places: Places, round: number): void {
  for (const [index, [name, count]] of Object.entries(call.operands).entries())
    backend.copyHtoD(places[name]!, operandBytes(count, index + round, operandType(call, dtype, name)));
}

/** Memory of somebody else, such as a pool would lend that had got back what a recording still needs. */
function bystanders(backend: ComputeBackend): { readonly size: number; readonly handle: DeviceHandle }[] {
  return [256, 4096, 4096, 65536, 2 ** 20].map((size) => {
    const handle = backend.alloc(size, { zero: false });
    backend.fill(handle, 0xc3, size, "u8");
    return { size, handle };
  });
}

/** The call made by a recording in several rounds, some of them on other operands. */
async function sameAsOneByOne(
  backend: ComputeBackend,
  call: TestCall,
  dtype: DType,
  roundCount: number,
  what: string,
): Promise<void> {
  const names = Object.keys(call.operands);
  const [first, second] = [allocated(backend, call, dtype), allocated(backend, call, dtype)];
  const contents = async (places: Places) =>
    Promise.all(names.map((name) => bytesOf(backend, places[name]!, operandSize(call, dtype, name))));
  const step = backend.record(() => invoke(backend, call, dtype, first));
  const others = bystanders(backend);
  try {
    const rounds = [second, first, first, second, first].slice(0, roundCount);
    for (const [round, places] of rounds.entries()) {
      write(backend, call, dtype, places, round);
      invoke(backend, call, dtype, places);
      const expected = await contents(places);
      write(backend, call, dtype, places, round);
      const operands = new Map(names.map((name) => [first[name]!, places[name]!]));
      step.run(places === first ? undefined : { operands });
      const got = await contents(places);
      for (const [i, name] of names.entries())
        sameBytes(got[i]!, expected[i]!, `${what}: ${name} after run ${round}`);
    }
    for (const { size, handle } of others)
      sameBytes(
        await bytesOf(backend, handle, size),
        new Uint8Array(size).fill(0xc3),
        `${what}: memory of others after it`,
      );
  } finally {
    step.dispose();
    for (const { handle } of others) backend.free(handle);
    for (const handle of [...Object.values(first), ...Object.values(second)]) backend.free(handle);
  }
}

const callOf = { small: smallCalls, medium: mediumCalls };

const operationLaws: readonly Law[] = operationNames.map((operation) => ({
  ...law(`${operation}: does the same as its plain call, also on other operands`, async (context) => {
    const { backend, forEach } = context;
    const cases = (["small", "medium"] as const).flatMap((size) => {
      // What a recording keeps of a call does not depend on the element type.
      const dtypes = supportedTypes(backend, callOf[size][operation]).slice(0, 1);
      return dtypes.map((dtype) => ({ size, dtype }));
    });
    const tryOne = ({ size, dtype }: (typeof cases)[number]) => {
      const rounds = size === "small" ? 5 : 2;
      return sameAsOneByOne(
        backend,
        callOf[size][operation],
        dtype,
        rounds,
        `${operation} ${dtype}, ${size}`,
      );
    };
    await forEach(cases, tryOne, { quick: 1 });
  }),
  operation,
  exempt: (capabilities, backend) =>
    withoutRecord(capabilities, backend) ?? unlessSupported(smallCalls[operation])(capabilities, backend),
}));

const nothingYet = law(
  "recording carries nothing out, and takes its arguments at the call",
  async ({ backend }) => {
    await withAllocations(backend, [16, 16, 16], async (a, b, c) => {
      backend.fill(a, 1, 4, "i32");
      const slice = { handle: a, byteOffset: 4 };
      const args = { kind: "neg" as const, n: 4, input: a, output: c };
      const isNegatable = backend.supports("unary", { kind: "neg" });
      const step = backend.record(() => {
        backend.copyDtoD({ handle: b, byteOffset: 0 }, slice, 4);
        backend.fill({ handle: b, byteOffset: 12 }, 7, 1, "i32");
        if (isNegatable) backend.unary(args);
      });
      slice.byteOffset = 12;
      args.n = 0;
      args.input = b;
      await holds(backend, b, [0, 0, 0, 0], "an output after record()");
      backend.copyHtoD(a, Int32Array.of(10, 11, 12, 13));
      step.run();
      await holds(backend, b, [11, 0, 0, 7], "an output after the first run");
      const negated = [...(await integersAt(backend, c, 4))];
      const sign = isNegatable ? -(2 ** 31) : 0;
      const expected = [10, 11, 12, 13].map((bits) => (isNegatable ? bits | sign : 0));
      // Subnormal numbers may be flushed.
      check(
        negated.every((value, i) => value === expected[i] || value === sign || value === 0),
        `an operation after its arguments were changed gave ${negated.join(", ")}`,
      );
      step.dispose();
    });
  },
);

const inOrder = law(
  "runs, plain calls, writes and reads take effect in the order in which they are made",
  async ({ backend }) => {
    await withAllocations(backend, [16, 16, 16], async (a, b, other) => {
      const step = backend.record(() => {
        backend.copyDtoD({ handle: b, byteOffset: 4 }, a, 12);
        backend.copyDtoD(a, b, 16);
        backend.fill(b, 9, 1, "i32");
      });
      // The same on the host.
      let [hostA, hostB] = [
        [0, 0, 0, 0],
        [0, 0, 0, 0],
      ];
      const onHost = () => {
        hostB = [hostB[0]!, ...hostA.slice(0, 3)];
        hostA = [...hostB];
        hostB = [9, ...hostB.slice(1)];
      };
      const reads: Promise<void>[] = [];
      for (let round = 1; round <= 6; round++) {
        backend.fill(b, round, 1, "i32");
        hostB = [round, ...hostB.slice(1)];
        step.run();
        onHost();
        reads.push(holds(backend, a, hostA, `a after run ${round}`));
        backend.copyHtoD({ handle: a, byteOffset: 8 }, Int32Array.of(100 * round));
        hostA = hostA.map((value, i) => (i === 2 ? 100 * round : value));
        reads.push(holds(backend, b, hostB, `b after run ${round}`));
        if (round % 2 === 0) {
          step.run({ operands: new Map([[a, other]]) });
          backend.copyDtoD(other, a, 16);
          hostB = [9, 0, 0, 0];
          backend.fill({ handle: b, byteOffset: 4 }, 0, 3, "i32");
        }
      }
      await Promise.all(reads);
      step.dispose();
    });
  },
);

const values = law("values reach the parts that vary, for one run only", async ({ backend }) => {
  await withAllocations(backend, [64, 64], async (table, log) => {
    backend.copyHtoD(
      table,
      Int32Array.from({ length: 16 }, (_, i) => 100 + i),
    );
    let calls = 0;
    const step = backend.record(
      (vary: (part: (values: { readonly position: number; readonly count: number }) => void) => void) => {
        backend.fill(log, -1, 16, "i32");
        vary(({ position, count }) => {
          calls++;
          backend.copyDtoD(
            { handle: log, byteOffset: 4 * position },
            { handle: table, byteOffset: 4 * position },
            4 * count,
          );
          for (let i = 0; i < count; i++) backend.fill({ handle: log, byteOffset: 4 * i }, 7, 1, "i32");
        });
        backend.fill({ handle: log, byteOffset: 60 }, position15, 1, "i32");
      },
      { position: 3, count: 1 },
    );
    const expected = (position: number, count: number) =>
      Array.from({ length: 16 }, (_, i) => {
        if (i === 15) return position15;
        if (i < count) return 7;
        return i >= position && i < position + count ? 100 + i : -1;
      });
    for (const [position, count] of [
      [undefined, undefined],
      [5, undefined],
      [5, 4],
      [undefined, 0],
      [undefined, undefined],
    ] as const) {
      const given = {
        ...(position === undefined ? {} : { position }),
        ...(count === undefined ? {} : { count }),
      };
      step.run(position === undefined && count === undefined ? undefined : { values: given });
      const what = `after a run with ${JSON.stringify(given)}`;
      const made = calls;
      step.run(position === undefined && count === undefined ? undefined : { values: given });
      check(
        calls === made,
        `a part that varies was made again, though its values are those of the run before`,
      );
      await holds(backend, log, expected(position ?? 3, count ?? 1), what);
    }
    refuses("INVALID_ARGUMENT", "a value that the recording does not have", () =>
      step.run({ values: { place: 3 } as never }),
    );
    step.dispose();
  });
});
const position15 = 1234;

const rebinding = law(
  "other operands take the place of recorded ones, for one run only",
  async ({ backend }) => {
    await withAllocations(backend, [16, 16, 48, 8], async (a, b, large, small) => {
      backend.copyHtoD(a, Int32Array.of(1, 2, 3, 4));
      backend.copyHtoD(
        large,
        Int32Array.from({ length: 12 }, (_, i) => 10 + i),
      );
      const step = backend.record(() => {
        backend.copyDtoD(b, { handle: a, byteOffset: 4 }, 12);
        backend.fill({ handle: b, byteOffset: 12 }, 5, 1, "i32");
      });
      step.run();
      await holds(backend, b, [2, 3, 4, 5], "the recorded operands");
      step.run({ operands: new Map<DeviceHandle, Operand>([[a, { handle: large, byteOffset: 8 }]]) });
      await holds(backend, b, [13, 14, 15, 5], "a slice in place of an operand");
      step.run();
      await holds(backend, b, [2, 3, 4, 5], "the recorded operands again");
      step.run({ operands: new Map<DeviceHandle, Operand>([[b, { handle: large, byteOffset: 16 }]]) });
      await holds(backend, large, [10, 11, 12, 13, 2, 3, 4, 5, 18], "another output");
      backend.fill(b, 0, 4, "i32");
      const untouched = async (what: string) => holds(backend, b, [0, 0, 0, 0], `the output after ${what}`);
      for (const [what, code, operands] of [
        ["a handle that no call uses", "INVALID_ARGUMENT", new Map([[large, a]])],
        ["an operand that is too short", "OUT_OF_BOUNDS", new Map([[a, small]])],
        ["a second operand that is too short", "OUT_OF_BOUNDS", new Map([[b, small]])],
        ["operands that overlap", "INVALID_ARGUMENT", new Map([[a, b]])],
        ["something else than a handle", "INVALID_HANDLE", new Map([[a, "a"]])],
        ["a bad offset", "INVALID_ARGUMENT", new Map([[a, { handle: large, byteOffset: 0.5 }]])],
        ["no map", "INVALID_ARGUMENT", { [a]: large }],
      ] as const) {
        refuses(code, what, () => step.run({ operands: operands as never }));
        await untouched(what);
      }
      step.run();
      await holds(backend, b, [2, 3, 4, 5], "the recorded operands after all of that");
      step.dispose();
    });
  },
);

const freed = law("a run is refused whole if an operand was freed", async ({ backend }) => {
  await withAllocations(backend, [16, 16], async (a, b) => {
    const late = backend.alloc(16);
    const other = backend.alloc(16);
    const step = backend.record(() => {
      backend.fill(a, 3, 4, "i32");
      backend.copyDtoD(b, late, 16);
    });
    step.run();
    backend.fill(a, 0, 4, "i32");
    backend.free(other);
    refuses("INVALID_HANDLE", "a run with an operand that was freed", () =>
      step.run({ operands: new Map([[late, other]]) }),
    );
    step.run();
    await holds(backend, a, [3, 3, 3, 3], "an output of a run before the free");
    backend.fill(a, 0, 4, "i32");
    backend.free(late);
    const error = refuses("INVALID_HANDLE", "a run after a free", () => step.run());
    check(error.message.includes("source"), `the message names no argument: ${error.message}`);
    const live = backend.alloc(16);
    refuses("INVALID_HANDLE", "a run with a freed operand replaced", () =>
      step.run({ operands: new Map([[late, live]]) }),
    );
    backend.free(live);
    await holds(backend, a, [0, 0, 0, 0], "an output of a run that was refused");
    refuses("INVALID_HANDLE", "recording a freed operand", () =>
      backend.record(() => backend.copyDtoD(b, late, 16)),
    );
    step.dispose();
  });
});

const disposed = law(
  "a recording that was disposed of is refused, and what it enqueued still happens",
  async ({ backend }) => {
    await withAllocations(backend, [16], async (a) => {
      const step = backend.record(() => backend.fill(a, 3, 4, "i32"));
      step.run();
      step.dispose();
      step.dispose();
      refuses("DISPOSED", "a run after dispose", () => step.run());
      await holds(backend, a, [3, 3, 3, 3], "an output of a run before dispose");
      {
        using empty = backend.record(() => {});
        empty.run();
      }
    });
  },
);

const refusals = law(
  "calls that cannot be recorded are refused, and a body that fails records nothing",
  async ({ backend }) => {
    await withAllocations(backend, [16, 16], async (a, b) => {
      backend.fill(b, 1, 4, "i32");
      const outside = backend.record(() => backend.fill(a, 8, 4, "i32"));
      const pending: Promise<unknown>[] = [];
      const before = backend.memory();
      const step = backend.record(() => {
        backend.fill(a, 3, 2, "i32");
        for (const [name, call] of [
          ["alloc", () => backend.alloc(4)],
          ["free", () => backend.free(a)],
          ["copyHtoD", () => backend.copyHtoD(a, new Uint8Array(16))],
          ["flush", () => backend.flush()],
          ["trim", () => backend.trim()],
          ["native", () => backend.native()],
          ["record", () => backend.record(() => {})],
          ["run of another recording", () => outside.run()],
        ] as const)
          refuses("BUSY", `${name} while calls are recorded`, call);
        pending.push(
          rejects("BUSY", "copyDtoH while calls are recorded", () => backend.copyDtoH(new Uint8Array(1), a)),
          rejects("BUSY", "synchronize while calls are recorded", () => backend.synchronize()),
        );
        refuses("OUT_OF_BOUNDS", "a bad call while calls are recorded", () => backend.copyDtoD(a, b, 17));
        check(backend.state === "open", `the state is ${backend.state} while calls are recorded`);
        backend.copyDtoD({ handle: a, byteOffset: 8 }, b, 8);
      });
      await Promise.all(pending);
      check(
        backend.memory().liveBytes === before.liveBytes,
        "a call that was refused while calls were recorded has changed the memory",
      );
      step.run();
      await holds(backend, a, [3, 3, 1, 1], "the calls around those that were refused");
      const failure = new Error("the body fails");
      let caught: unknown;
      try {
        backend.record(() => {
          backend.fill(a, 4, 4, "i32");
          throw failure;
        });
      } catch (error) {
        caught = error;
      }
      check(caught === failure, `record() threw ${String(caught)}, not what its body threw`);
      refuses("INVALID_ARGUMENT", "an asynchronous body", () => backend.record(async () => {}));
      refuses("INVALID_ARGUMENT", "no body", () => backend.record(undefined as never));
      await holds(backend, a, [3, 3, 1, 1], "after bodies that failed");
      backend.fill(a, 6, 4, "i32");
      await holds(backend, a, [6, 6, 6, 6], "a plain call after bodies that failed");
      outside.run();
      await holds(backend, a, [8, 8, 8, 8], "another recording after that");
      for (const one of [step, outside]) one.dispose();
    });
  },
);

/** More calls than any queue or batch holds. */
const many = law(
  "thousands of dependent calls in one recording all happen, in order, in every run",
  async ({ backend }) => {
    if (!canAdd(backend)) return;
    await withAllocations(backend, [16, 16], async (a, b) => {
      const count = 1500;
      const step = backend.record(() => {
        for (let i = 0; i < count; i++) {
          addTo(backend, a, 4, i);
          // Doubles it now and then, so that the order shows.
          if (i % 500 === 499) {
            backend.copyDtoD(b, a, 16);
            backend.binary({ kind: "add", dtype: "i32", n: 4, a, b, output: a });
          }
        }
      });
      let expected = 0;
      for (let run = 0; run < 3; run++) {
        step.run();
        for (let i = 0; i < count; i++) {
          expected = (expected + i) | 0;
          if (i % 500 === 499) expected = (2 * expected) | 0;
        }
      }
      await holds(backend, a, [expected, expected, expected, expected], "after 3 runs");
      step.dispose();
    });
  },
);

/** Kernels may have memory of their own, which a recording has to keep and to give back. */
const nothingLeft: Law = {
  ...law("recordings give back what they held", async ({ fresh }) => {
    const backend = await fresh();
    const call = mediumCalls.gemm;
    const [dtype] = supportedTypes(backend, call);
    if (dtype === undefined) return;
    const places = allocated(backend, call, dtype);
    write(backend, call, dtype, places, 0);
    const reserved = async () => {
      await settled(backend.synchronize(), "synchronize");
      return backend.memory().reservedBytes;
    };
    const round = () => {
      const step = backend.record(() => {
        for (let i = 0; i < 4; i++) invoke(backend, call, dtype, places);
      });
      step.run();
      step.run();
      step.dispose();
    };
    for (let i = 0; i < 3; i++) round();
    // Memory that is kept grows each time. What a backend sets up for its own use once it is busy, such as a ring for
    // uploads, is no such memory, and when that happens depends on the machine.
    const sizes = [await reserved()];
    for (let batch = 0; batch < 3; batch++) {
      for (let i = 0; i < 40; i++) round();
      sizes.push(await reserved());
      if (sizes.at(-1)! <= 1.25 * sizes.at(-2)! + 2 ** 20) break;
    }
    check(
      sizes.at(-1)! <= 1.25 * sizes.at(-2)! + 2 ** 20,
      `${sizes.join(", ")} bytes are reserved, with 40 more recordings made and disposed of from one number to the next`,
    );
    for (const handle of Object.values(places)) backend.free(handle);
  }),
  operation: "gemm",
};

const freshZeros = law(
  "memory that reads as zeros does so though a recording was made on it",
  async ({ backend }) => {
    // Freed memory comes back from a pool.
    for (let round = 0; round < 3; round++) {
      const used = backend.alloc(4096);
      backend.fill(used, 0xee, 4096, "u8");
      backend.free(used);
      await withAllocations(backend, [4096, 4096], async (a, b) => {
        using step = backend.record(() => {
          backend.copyDtoD({ handle: b, byteOffset: 64 }, a, 64);
          backend.fill(a, 7, 1024, "i32");
        });
        sameBytes(await bytesOf(backend, a, 4096), new Uint8Array(4096), "what a recording would fill");
        step.run();
        step.run();
        const expected = new Int32Array(1024).fill(7, 16, 32);
        sameBytes(await bytesOf(backend, b, 4096), expected, "what a recording copied to");
      });
    }
  },
);

const swapped = law("a recording goes on after a swap, and during one", async (context) => {
  const backend = await openSwitchable(context);
  try {
    const [a, b, other] = [backend.alloc(16), backend.alloc(16), backend.alloc(100_000)];
    backend.copyHtoD(a, Int32Array.of(1, 2, 3, 4));
    const step = backend.record(
      (vary: (part: (values: { readonly first: number }) => void) => void) => {
        backend.copyDtoD(b, a, 16);
        vary(({ first }) => backend.fill({ handle: b, byteOffset: 4 * first }, 50 + first, 1, "i32"));
        backend.copyDtoD(a, { handle: b, byteOffset: 4 }, 12);
      },
      { first: 0 },
    );
    let host = [1, 2, 3, 4];
    const onHost = (first = 0) => {
      const copy = host.map((value, i) => (i === first ? 50 + first : value));
      host = [...copy.slice(1), host[3]!];
    };
    for (const to of ["reference", "subject", "reference"]) {
      step.run();
      onHost();
      const swap = backend.use(to);
      // At some of these the allocations are being moved.
      for (let turn = 0; turn < 40; turn++) {
        step.run({ values: { first: turn % 4 } });
        onHost(turn % 4);
        await undefined;
      }
      await settled(swap, "use");
      await holds(backend, a, host, `after the swap to ${to}`);
      step.run({ values: { first: 3 } });
      onHost(3);
      await holds(backend, a, host, `after a run on ${to}`);
      backend.copyHtoD(other, Int32Array.of(9, 8, 7, 6));
      step.run({ operands: new Map([[a, other]]) });
      await holds(backend, other, [8, 7, 6, 6], `other operands on ${to}`);
      await holds(backend, a, host, "operands that were replaced");
    }
    backend.free(other);
    step.run();
    backend.free(b);
    refuses("INVALID_HANDLE", "a run after a free", () => step.run());
    step.dispose();
    refuses("DISPOSED", "a run after dispose", () => step.run());
  } finally {
    await settled(backend.dispose(), "dispose");
  }
});

const lost: Law = {
  ...law("a lost device takes its recordings along", async (context) => {
    const backend = await context.fresh();
    const a = backend.alloc(16);
    const step = backend.record(() => backend.fill(a, 3, 4, "i32"));
    const empty = backend.record(() => {});
    step.run();
    await lose(context, backend);
    refuses("DEVICE_LOST", "a run after the loss", () => step.run());
    refuses("DEVICE_LOST", "record after the loss", () => backend.record(() => {}));
    await settled(backend.init(), "init");
    refuses("INVALID_HANDLE", "a run on the fresh device", () => step.run());
    empty.run();
    const fresh = backend.alloc(16);
    refuses("INVALID_HANDLE", "a run with another operand on the fresh device", () =>
      step.run({ operands: new Map([[a, fresh]]) }),
    );
    using again = backend.record(() => backend.fill(fresh, 4, 4, "i32"));
    again.run();
    await holds(backend, fresh, [4, 4, 4, 4], "a recording on the fresh device");
    step.dispose();
    empty.dispose();
    await settled(backend.dispose(), "dispose");
    refuses("DISPOSED", "a run after dispose of the backend", () => again.run());
  }),
  needsLoss: true,
};

const lostContents: Law = {
  ...law("after a loss a switchable backend runs a recording that writes what was lost", async (context) => {
    const backend = await openSwitchable(context);
    try {
      const [a, b] = [backend.alloc(16), backend.alloc(16)];
      using whole = backend.record(() => {
        backend.fill(a, 3, 4, "i32");
        backend.copyDtoD({ handle: a, byteOffset: 4 }, a, 4);
      });
      using needy = backend.record(() => {
        backend.fill(a, 5, 4, "i32");
        backend.copyDtoD(a, b, 16);
      });
      whole.run();
      needy.run();
      await lose(context, backend.inner);
      refuses("DEVICE_LOST", "a run after the loss", () => whole.run());
      await settled(backend.use("reference"), "use");
      refuses("DEVICE_LOST", "a run that reads what was lost", () => needy.run());
      await rejects("DEVICE_LOST", "a read after a run that was refused", () =>
        backend.copyDtoH(new Uint8Array(4), a),
      );
      whole.run();
      await holds(backend, a, [3, 3, 3, 3], "what the recording wrote anew");
      backend.fill(b, 6, 4, "i32");
      needy.run();
      await holds(backend, a, [6, 6, 6, 6], "after all contents are there again");
    } finally {
      await settled(backend.dispose(), "dispose");
    }
  }),
  needsLoss: true,
};

/** Reads of what is written later, and writes of what is being read. */
const reads = law("a read sees the runs before it and none after it", async ({ backend }) => {
  await withAllocations(backend, [1024, 1024], async (a, b) => {
    const step = backend.record(() => {
      backend.copyDtoD(a, b, 1024);
      backend.fill(b, 0x11, 1024, "u8");
    });
    const images = Array.from({ length: 5 }, (_, round) => pattern(1024, round));
    const pending: Promise<void>[] = [];
    for (const [round, image] of images.entries()) {
      backend.copyHtoD(b, image);
      step.run();
      pending.push(bytesOf(backend, a, 1024).then((got) => sameBytes(got, image, `round ${round}`)));
    }
    await Promise.all(pending);
    step.dispose();
  });
});

export const recordingLaws: readonly Law[] = [
  ...operationLaws,
  nothingYet,
  inOrder,
  reads,
  values,
  rebinding,
  freed,
  disposed,
  refusals,
  many,
  nothingLeft,
  freshZeros,
  swapped,
  lost,
  lostContents,
];
