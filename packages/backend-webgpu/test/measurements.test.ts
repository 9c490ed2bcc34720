import { assert } from "chai";
import { finishedProfile } from "#src/profile/finished.js";
import { Measurements } from "#src/profile/profile.js";
import { chromeTrace } from "#src/profile/trace.js";

describe("webgpu measurements", () => {
  it("add up by operation and kernel", () => {
    const measurements = new Measurements({});
    // Nanoseconds since long before 2^53.
    const start = 2n ** 60n;
    const add = (operation: string, kernel: string, begin: number, end: number): void =>
      measurements.addDispatch(operation, kernel, start + BigInt(begin), start + BigInt(end), 0);
    add("gemm", "tiled", 1000, 4000);
    add("gemm", "tiled", 5000, 6000);
    add("gemm", "fill_bytes", 7000, 7500);
    add("fill", "fill_bytes", 8000, 8500);
    measurements.addCall("gemm", 0, 30);
    measurements.addCall("fill", 30, 50);
    measurements.addCall("gemm", 80, 10);
    const profile = finishedProfile(measurements.gathered, "answer", 200, 3);
    assert.equal(profile.result, "answer");
    assert.deepEqual(profile.rows[0], {
      ...{ operation: "gemm", kernel: "tiled", dispatches: 2, measured: 2, share: 0.8 },
      ...{ totalMicroseconds: 4, meanMicroseconds: 2, minMicroseconds: 1, maxMicroseconds: 3 },
    });
    assert.deepEqual(
      profile.rows.map(({ operation, kernel, totalMicroseconds }) => [operation, kernel, totalMicroseconds]),
      [
        ["gemm", "tiled", 4],
        ["gemm", "fill_bytes", 0.5],
        ["fill", "fill_bytes", 0.5],
      ],
    );
    assert.deepEqual(profile.calls, [
      { operation: "fill", calls: 1, totalMicroseconds: 50, meanMicroseconds: 50 },
      { operation: "gemm", calls: 2, totalMicroseconds: 40, meanMicroseconds: 20 },
    ]);
    const { dispatches, deviceMicroseconds, hostMicroseconds, wallMicroseconds, compiledPipelines } = profile;
    assert.deepEqual(
      [dispatches, deviceMicroseconds, hostMicroseconds, wallMicroseconds, compiledPipelines],
      [4, 5, 90, 200, 3],
    );
    assert.equal(profile.timestampStepMicroseconds, 0.5);
    // All but the methods is plain data.
    assert.deepEqual(JSON.parse(JSON.stringify(profile)).rows, profile.rows);
  });

  it("count no time twice", () => {
    const measurements = new Measurements({});
    // The second begins while the first runs, the third runs inside the second, the fourth has a gap.
    for (const [kernel, begin, end] of [
      ["a", 1000, 2000],
      ["b", 1500, 4000],
      ["c", 2500, 3500],
      ["d", 3900, 5000],
      ["e", 6000, 7000],
    ] as const)
      measurements.addDispatch("gemm", kernel, BigInt(begin), BigInt(end), 0);
    const profile = finishedProfile(measurements.gathered, undefined, 10, 0);
    const byKernel = Object.fromEntries(
      profile.rows.map(({ kernel, totalMicroseconds }) => [kernel, totalMicroseconds]),
    );
    assert.deepEqual(byKernel, { a: 1, b: 2, c: 0, d: 1, e: 1 });
    assert.equal(profile.deviceMicroseconds, 5);
    assert.equal(profile.timestampStepMicroseconds, 0.1);
    const stretches = profile.toChromeTrace().traceEvents.filter(({ ph }) => ph === "X");
    assert.deepEqual(
      stretches.map(({ ts, dur }) => [ts, dur]),
      [
        [0, 1],
        [1, 2],
        [3, 0],
        [3, 1],
        [5, 1],
      ],
    );
  });

  it("leave out timestamps that make no sense, and say so", () => {
    const measurements = new Measurements({});
    measurements.addDispatch("gemm", "tiled", 0n, 0n, 0);
    measurements.addDispatch("gemm", "tiled", 9000n, 8000n, 0);
    measurements.addDispatch("gemm", "tiled", 1000n, 3000n, 0);
    measurements.addDispatch("unary", "lost", 0n, 0n, 0);
    const profile = finishedProfile(measurements.gathered, undefined, 10, 0);
    assert.equal(profile.dispatches, 4);
    const [gemm, unary] = profile.rows;
    assert.deepEqual(
      [gemm!.dispatches, gemm!.measured, gemm!.minMicroseconds, gemm!.meanMicroseconds, gemm!.share],
      [3, 1, 2, 2, 1],
    );
    assert.deepEqual(
      [unary!.dispatches, unary!.measured, unary!.minMicroseconds, unary!.meanMicroseconds],
      [1, 0, 0, 0],
    );
    assert.match(String(profile), /^3 dispatches were not measured/m);
  });

  it("know timestamps that are rounded", () => {
    const textOf = (...times: readonly number[]): string => {
      const measurements = new Measurements({});
      for (const time of times)
        measurements.addDispatch("gemm", "tiled", BigInt(12_345 + time), BigInt(12_345 + time), 0);
      return String(finishedProfile(measurements.gathered, undefined, 0, 0));
    };
    assert.match(textOf(0, 65_536, 196_608), /timestamps are coarse \(steps of 65.536 us\)/);
    assert.match(textOf(0, 200_000, 100_000), /steps of 100 us/);
    assert.match(textOf(0, 0), /steps of more than all of this/);
    assert.notInclude(textOf(0, 65_536, 100_000), "coarse");
    assert.notInclude(textOf(), "coarse");
  });

  it("are a table for people", () => {
    const measurements = new Measurements({});
    measurements.addDispatch("gemm", "gemm_f32_64x64", 1000n, 2_001_000n, 0);
    measurements.addDispatch("fill", "fill_bytes", 2_001_000n, 2_501_100n, 0);
    measurements.addCall("gemm", 0, 12.34);
    measurements.submits = 1;
    measurements.downloadedBytes = 4;
    assert.deepEqual(String(finishedProfile(measurements.gathered, undefined, 3000, 2)).split("\n"), [
      "on the device  kernel          dispatches  total us  mean us  min us  max us  share",
      "gemm           gemm_f32_64x64           1    2000.0   2000.0  2000.0  2000.0  80.0%",
      "fill           fill_bytes               1     500.1    500.1   500.1   500.1  20.0%",
      "",
      "on the host  calls  total us  mean us",
      "gemm             1      12.3     12.3",
      "",
      "dispatches: 2, submits: 1, kernels compiled: 2",
      "2500.1 us on the device, 12.3 us on the host, 3000.0 us from beginning to end",
      "0 bytes to the device, 4 bytes from it",
    ]);
  });

  it("keep a bounded number of events", () => {
    const measurements = new Measurements({ maxTraceEvents: 10 });
    for (let i = 0; i < 1000; i++) {
      measurements.addDispatch("gemm", "tiled", BigInt(1 + i), BigInt(2 + i), 0);
      measurements.addCall("gemm", i, 1);
    }
    const profile = finishedProfile(measurements.gathered, undefined, 1000, 0);
    assert.equal(profile.dispatches, 1000);
    assert.equal(profile.calls[0]!.calls, 1000);
    assert.lengthOf(
      profile.toChromeTrace().traceEvents.filter(({ ph }) => ph === "X"),
      20,
    );
  });
});

describe("webgpu traces", () => {
  const dispatch = (kernel: string, begin: number, duration: number, submitted: number) => ({
    ...{ operation: "gemm", kernel, begin, duration, submitted },
  });

  it("have the device begin after each submit, and once at once", () => {
    const { traceEvents } = chromeTrace(
      [dispatch("a", 0, 50, 100), dispatch("b", 60, 40, 100), dispatch("c", 100, 20, 210)],
      [{ operation: "gemm", begin: 5, duration: 7 }],
    );
    assert.deepEqual(
      traceEvents
        .filter(({ ph }) => ph === "X")
        .map(({ name, cat, ts, dur, tid }) => [name, cat, ts, dur, tid]),
      [
        ["gemm", "host", 5, 7, 1],
        ["a", "gemm", 110, 50, 2],
        ["b", "gemm", 170, 40, 2],
        ["c", "gemm", 210, 20, 2],
      ],
    );
    assert.deepEqual(
      traceEvents.filter(({ ph }) => ph === "M").map(({ tid, args }) => [tid, args!.name]),
      [
        [0, "Backplane on WebGPU"],
        [1, "host"],
        [2, "device"],
      ],
    );
  });

  it("may be of nothing", () => {
    const { traceEvents } = chromeTrace([], []);
    assert.lengthOf(traceEvents, 3);
  });
});
