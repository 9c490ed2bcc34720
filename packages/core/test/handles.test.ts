import type { DeviceHandle } from "@backplane/core";
import { assert } from "chai";
import { HandleTable, describe as render } from "#src/handles.js";
import { throws } from "./support/fake-driver.js";

describe("HandleTable", () => {
  it("issues safe positive integers that survive JSON and fit a u64", () => {
    const table = new HandleTable<string>();
    const handle = table.issue("entry");
    assert.isTrue(Number.isSafeInteger(handle) && handle > 0);
    const revived = JSON.parse(JSON.stringify({ handle })).handle as DeviceHandle;
    assert.equal(table.get(revived, "op", "a"), "entry");
    assert.equal(Number(BigInt.asUintN(64, BigInt(handle))), handle);
  });

  it("never issues a handle twice, over all tables and after removal", () => {
    const seen = new Set<number>();
    const tables = [new HandleTable<number>(), new HandleTable<number>()];
    for (let i = 0; i < 20_000; i++) {
      const table = tables[i % 2]!;
      const handle = table.issue(i);
      assert.isFalse(seen.has(handle));
      seen.add(handle);
      assert.equal(table.remove(handle, "free", "handle"), i);
    }
    assert.deepEqual(
      tables.map((table) => table.size),
      [0, 0],
    );
  });

  it("refuses stale, foreign and forged handles", () => {
    const table = new HandleTable<string>();
    const other = new HandleTable<string>();
    const stale = table.issue("stale");
    table.remove(stale, "free", "handle");
    const live = table.issue("live");
    const foreign = other.issue("foreign");
    const forged: unknown[] = [0, -1, 1, 1.5, live + 0.5, live + 1000, Number.NaN, Infinity, 2 ** 53];
    forged.push(String(live), BigInt(live), null, undefined, {}, [live], true, Symbol("handle"), () => live);
    for (const value of [stale, foreign, ...forged]) {
      const error = throws("INVALID_HANDLE", () => table.get(value as DeviceHandle, "gemm", "b"), "b");
      assert.equal(error.operation, "gemm");
      throws("INVALID_HANDLE", () => table.remove(value as DeviceHandle, "free", "handle"));
    }
    assert.equal(table.size, 1);
    assert.equal(table.get(live, "gemm", "b"), "live");
  });

  it("lists what is live, oldest first, and forgets it all on clear", () => {
    const table = new HandleTable<string>();
    const handles = ["a", "b", "c"].map((name) => table.issue(name));
    table.remove(handles[1]!, "free", "handle");
    assert.deepEqual(
      [...table.entries()].map(([, name]) => name),
      ["a", "c"],
    );
    table.clear();
    assert.equal(table.size, 0);
    throws("INVALID_HANDLE", () => table.get(handles[0]!, "free", "handle"));
  });

  it("keeps any number of entries apart, in whatever order they end", () => {
    const table = new HandleTable<number>();
    const handles = Array.from({ length: 3000 }, (_, i) => table.issue(i));
    // Some of every age.
    const ended = new Set(handles.filter((_, i) => i % 7 === 3 || i % 1000 > 990));
    for (const handle of ended) table.remove(handle, "free", "handle");
    for (const [i, handle] of handles.entries())
      assert.equal(table.find(handle), ended.has(handle) ? undefined : i);
    const live = handles.filter((handle) => !ended.has(handle));
    assert.deepEqual(
      [...table.entries()],
      live.map((handle) => [handle, handles.indexOf(handle)]),
    );
    assert.equal(table.size, live.length);
    for (const handle of live.reverse()) table.remove(handle, "free", "handle");
    assert.equal(table.size, 0);
    assert.deepEqual([...table.entries()], []);
  });

  it("says whether a number could have been a handle", () => {
    const table = new HandleTable<string>();
    const get = (value: unknown) =>
      throws("INVALID_HANDLE", () => table.get(value as DeviceHandle, "op", "a"));
    assert.match(get(2 ** 49).message, /^op: a 562949953421312 is not live/);
    for (const value of [17, 0.5, -1, 2 ** 60])
      assert.match(get(value).message, /^op: a is the number \S+, not a device handle.*alloc\(\)$/);
    assert.match(get("x").message, /^op: a is "x", not a device handle; allowed: a handle from alloc/);
  });

  it("says what else was put where a handle belongs, and what was probably meant", () => {
    const table = new HandleTable<string>((operation, argument) => operation === "add" && argument === "b");
    const message = (operand: unknown, argument = "b") =>
      throws("INVALID_HANDLE", () => table.refuse(operand, "add", argument)).message;
    assert.equal(
      message(2),
      "add: b is the number 2, not a device handle: handles come from alloc(); for a scalar write { scalar: 2 }",
    );
    assert.notInclude(message(2, "output"), "scalar");
    assert.match(message({ handle: 2, byteOffset: 0 }), /^add: b\.handle is the number 2.*alloc\(\)$/);
    assert.match(message(undefined), /^add: b is missing; allowed: a handle from alloc\(\), or \{ handle, /);
    assert.match(message({ scalar: 2 }, "output"), /^add: output is a scalar, which cannot stand here/);
    assert.match(
      message(new Float32Array(2)),
      /^add: b is Float32Array, which is memory of the host: upload/,
    );
  });
});

describe("describe", () => {
  it("renders any value shortly", () => {
    assert.equal(render([1, "x"]), '[1, "x"]');
    const endless: unknown[] = [1];
    endless.push(endless);
    assert.equal(render(endless), "[1, [...]]");
    assert.equal(
      render(new Array(1000).fill(7)),
      "[7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, ... (1000)]",
    );
    assert.equal(render(new Float32Array(2)), "Float32Array");
    assert.equal(render(Object.create(null)), "object");
    assert.equal(render(null), "null");
    assert.equal(render(undefined), "undefined");
    assert.equal(render(12n), "12n");
  });
});
