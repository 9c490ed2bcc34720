// Tags: proof, pure, long
import {
  type ComputeBackend,
  createBackend,
  type DType,
  dtypes,
  type MemoryStatistics,
  type OperationName,
} from "@backplane/core";
import { expect } from "chai";
import { random } from "#src/data.js";
import {
  createReferenceBackend,
  type MemorySample,
  mutants,
  ReferenceDriver,
  type SoakOptions,
  type SoakReport,
  soak,
  trendOf,
} from "#src/index.js";
import { makeDice } from "#src/kit/draft.js";
import { testedOperations } from "#src/ops/index.js";

/** Small work: the reference is slow, and has it checked by itself. */
const limits = { elements: 2 ** 11, multiplications: 2 ** 13, largestBytes: 2 ** 14, liveBytes: 2 ** 20 };

/** Operations whose drafts are of every type and kind, integers and bytes among them. */
const ofEveryType = ["unary", "binary", "reduce"] as const;

/** Backends with a defect that any walk comes across at once. */
const found = [
  ...["ignores ldc", "flips the filter", "maps query heads to key heads in turn"],
  ...["truncated readback", "copyHtoD keeps a reference", "read of the future", "memory given up too early"],
];

/** Backends that are wrong in few cases of one operation, which a walk through all of them meets late. */
const foundInOne = [
  ["reads from whole vectors only", "unary"],
  ["gives the dividend for a division by 0", "binary"],
  ["takes the largest unsigned integer as if it were signed", "reduce"],
] as const;

/** Hides all other operations from the soak, however many there are. */
function only(backend: ComputeBackend, ...names: readonly OperationName[]): ComputeBackend {
  const supports = backend.supports.bind(backend);
  backend.supports = (operation, question) =>
    names.some((name) => name === operation) && supports(operation as OperationName, question);
  return backend;
}

async function soaked(backend: ComputeBackend, options: SoakOptions = {}): Promise<SoakReport> {
  await backend.init();
  try {
    return await soak(backend, { rounds: 16, limits, ...options });
  } finally {
    await backend.dispose();
  }
}

function samplesOf(bytes: (index: number) => number, count = 64): MemorySample[] {
  return Array.from({ length: count }, (_, i) => ({
    seconds: 2 * i,
    liveBytes: 0,
    reservedBytes: 0,
    excessBytes: bytes(i),
  }));
}

describe("The soak", () => {
  it("passes a right backend, and says what it did", async () => {
    const reported: MemorySample[] = [];
    const onSample = (sample: MemorySample) => reported.push(sample);
    const report = await soaked(createReferenceBackend(), { rounds: 40, onSample });
    expect(report.reasons).to.deep.equal([]);
    expect(report.passed).to.equal(true);
    const { tally, left, samples, trends } = report;
    expect(samples).to.have.length(32);
    expect(tally.wrong).to.equal(0);
    expect(tally.results).to.be.above(50);
    expect(tally.calls).to.include.all.keys(
      ...["gemm", "batchedGemm", "conv2d", "attention", "reduce", "unary", "binary"],
      ...["alloc", "free", "copyHtoD", "copyDtoH", "copyDtoD", "fill"],
    );
    expect(tally.calls.alloc).to.equal(tally.calls.free);
    expect(left.liveAllocations).to.equal(0);
    expect(samples).to.deep.equal(reported);
    expect(trends.map(({ gauge }) => gauge)).to.deep.equal(["excessBytes"]);
  });

  it("finds results that are wrong once in a while", async () => {
    class Careless extends ReferenceDriver {
      #calls = 0;
      override write(...[to, byteOffset, source]: Parameters<ReferenceDriver["write"]>): void {
        super.write(to, byteOffset, source);
        if (++this.#calls % 10 === 0) to.fill(0x3f, byteOffset, byteOffset + source.length);
      }
    }
    const report = await soaked(createBackend(new Careless()));
    expect(report.passed).to.equal(false);
    expect(report.tally.wrong).to.be.above(0);
    expect(report.reasons[0]).to.match(/^\d+ of \d+ results were wrong$/);
    expect(report.tally.complaints[0]).to.match(/differs|expected|no part of the result/);
  });

  for (const name of found)
    it(`finds that a backend is wrong: "${name}"`, async () => {
      const report = await soaked(mutants.find((mutant) => mutant.name === name)!.create());
      expect(report.passed).to.equal(false);
    });

  for (const name of ofEveryType)
    it(`drafts ${name} of every element type and kind`, async () => {
      const { draft, supports } = testedOperations[name];
      const expected = supports.flatMap(({ dtype, kind }) =>
        (dtype as readonly DType[]).flatMap((type) =>
          (kind as readonly string[]).map((one) => `${type} ${one}`),
        ),
      );
      const dice = makeDice(random(3));
      const drawn = new Set<string>();
      for (let i = 0; i < 10_000; i++) {
        const { rest } = draft(dice, limits, dice.pick(["f32", "f16"]));
        drawn.add(`${rest.dtype} ${rest.kind}`);
      }
      expect([...drawn].sort()).to.deep.equal(expected.sort());
    });

  it("calls operations on whatever element types they have", async () => {
    const backend = only(createReferenceBackend(), ...ofEveryType);
    const called = new Set<string>();
    for (const name of ofEveryType) {
      const method = backend[name].bind(backend) as (args: object) => void;
      backend[name] = (args: { readonly dtype?: DType }) => {
        called.add(`${name} ${args.dtype}`);
        method(args);
      };
    }
    const { reasons } = await soaked(backend, { rounds: 32 });
    expect(reasons).to.deep.equal([]);
    const expected = ofEveryType.flatMap((name) =>
      dtypes.filter((dtype) => dtype !== "bf16").map((dtype) => `${name} ${dtype}`),
    );
    expect([...called].sort()).to.deep.equal(expected.sort());
  });

  for (const [name, operation] of foundInOne)
    it(`finds that a backend is wrong: "${name}"`, async () => {
      const backend = only(mutants.find((mutant) => mutant.name === name)!.create(), operation);
      const { tally } = await soaked(backend, { rounds: 60, limits: { ...limits, elements: 2 ** 9 } });
      expect(tally.wrong).to.be.above(0);
    });

  it("finds memory that is never given back", async () => {
    const backend = createReferenceBackend();
    let leaked = 0;
    const memory = backend.memory.bind(backend);
    backend.memory = (): MemoryStatistics => {
      leaked += 2 ** 20;
      const statistics = memory();
      return { ...statistics, reservedBytes: statistics.reservedBytes + leaked };
    };
    const report = await soaked(backend, { rounds: 32 });
    expect(report.reasons.join()).to.match(/excessBytes rose by \d+\.\d MiB/);
    expect(report.passed).to.equal(false);
    const generous = await soaked(createReferenceBackend(), { rounds: 32, keptBytes: 2 ** 30 });
    expect(generous.trends[0]).to.include({ rise: 0, flat: true });
  });

  it("does not take for lost what a backend keeps once for each sort of call", async () => {
    const keeping = async (sort: (kind: string, n: number) => string) => {
      const kept = new Set<string>();
      const backend = createReferenceBackend();
      // However many other operations there are.
      backend.supports = (operation) => operation === "unary";
      const unary = backend.unary.bind(backend);
      backend.unary = (args) => {
        kept.add(sort(args.kind, args.n));
        unary(args);
      };
      const processMemory = () => ({ residentBytes: kept.size * 2 ** 25 });
      const report = await soaked(backend, { rounds: 100, processMemory });
      return { kept: kept.size, reasons: report.reasons };
    };
    const kernels = await keeping((kind, n) => `${kind} ${n}`);
    expect(kernels.kept).to.be.above(100);
    expect(kernels.reasons).to.deep.equal([]);
    let calls = 0;
    const leak = await keeping(() => `${calls++}`);
    expect(leak.reasons.join()).to.match(/residentBytes rose by/);
  });

  it("reports a call that fails, and a backend that has nothing to check", async () => {
    class Failing extends ReferenceDriver {
      override fill(): void {
        throw new Error("no more");
      }
    }
    const report = await soaked(createBackend(new Failing()));
    expect(report.reasons.join()).to.include("a call failed").and.to.include("no more");
    const stopped = new AbortController();
    stopped.abort();
    const { reasons, passed, samples } = await soaked(createReferenceBackend(), { signal: stopped.signal });
    expect(reasons).to.deep.equal(["nothing was checked"]);
    expect(passed).to.equal(false);
    expect(samples).to.deep.equal([]);
  });

  it("ends early when it is told to, with all that was under way verified", async () => {
    const stop = new AbortController();
    const report = await soaked(createReferenceBackend(), {
      signal: stop.signal,
      onSample: () => stop.abort(),
    });
    expect(report.reasons).to.deep.equal([]);
    expect(report.samples).to.have.length(1);
    expect(report.tally.calls.alloc).to.equal(report.tally.calls.free);
  });

  it("makes the same calls for the same seed", async () => {
    const complaints = async (seed: number) => {
      class Wrong extends ReferenceDriver {
        override fill(...[region, pattern]: Parameters<ReferenceDriver["fill"]>): void {
          super.fill(region, pattern ^ 0x01010101);
        }
      }
      const backend = createBackend(new Wrong());
      // However many other operations there are.
      backend.supports = (operation) => operation === "unary";
      return (await soaked(backend, { seed })).tally.complaints[0];
    };
    const first = await complaints(7);
    expect(first).to.be.a("string");
    expect(await complaints(7)).to.equal(first);
    expect(await complaints(8)).to.not.equal(first);
  });

  it("refuses lengths that are not numbers above zero", async () => {
    for (const [options, argument] of [
      ...[0, -1, Number.NaN].map((minutes) => [{ minutes }, "minutes"] as const),
      ...[0, -1, 1.5, Number.NaN].map((rounds) => [{ rounds }, "rounds"] as const),
      [{ minutes: 1, rounds: 1 }, "rounds"],
    ] as const) {
      const error = await soaked(createReferenceBackend(), options).catch((reason) => reason);
      expect(error).to.include({ code: "INVALID_ARGUMENT", argument });
    }
  });

  it("refuses names of no option", async () => {
    for (const [options, argument] of [
      [{ minute: 1 }, "minute"],
      [{ limits: { allocation: 1 } }, "limits.allocation"],
    ] as const) {
      const error = await soaked(createReferenceBackend(), options as object).catch((reason) => reason);
      expect(error).to.include({ code: "INVALID_ARGUMENT", argument });
    }
  });

  it("calls memory flat that scatters, and not what rises slowly", () => {
    const MiB = 2 ** 20;
    const scatter = (i: number) => ((i * 7919) % 64) * MiB;
    const flat = trendOf(
      "excessBytes",
      samplesOf((i) => 500 * MiB + scatter(i)),
    )!;
    expect(flat.flat).to.equal(true);
    expect(flat.mean).to.be.within(500 * MiB, 564 * MiB);
    // Pools fill in the first half.
    expect(
      trendOf(
        "excessBytes",
        samplesOf((i) => Math.min(i, 30) * 20 * MiB),
      )!.flat,
    ).to.equal(true);
    const rising = trendOf(
      "excessBytes",
      samplesOf((i) => (i * MiB) / 2),
    )!;
    expect(rising.flat).to.equal(false);
    expect(rising.rise).to.be.closeTo(15.5 * MiB, 1);
    expect(
      trendOf(
        "excessBytes",
        samplesOf((i) => 100 * MiB - i * MiB),
      )!.flat,
    ).to.equal(true);
    expect(trendOf("excessBytes", samplesOf(scatter, 7))).to.equal(undefined);
    expect(trendOf("heapBytes", samplesOf(scatter))).to.equal(undefined);
  });
});
