import { assert } from "chai";
import { defaultSettings, optionsFrom, parametersFor, settingsFrom } from "#src/page/settings.js";

describe("Settings of the page", () => {
  const settings = (address: string) => settingsFrom(new URLSearchParams(address));

  it("are read from its address", () => {
    const found = settings(
      "?backend=/dist/mine.js&export=create&config=a,b&mode=soak&seed=7&ops=gemm,%20reduce,&dtype=f16&time-budget=1.5&law=tight",
    );
    assert.deepInclude(found, {
      source: "address",
      backend: "/dist/mine.js",
      export: "create",
      config: "a,b",
    });
    assert.deepEqual(optionsFrom(found), {
      ...{ mode: "soak", seed: 7, grade: "must", operations: ["gemm", "reduce"], dtypes: ["f16"] },
      ...{ timeBudget: 1500, law: "tight" },
    });
    assert.deepInclude(settings("?backend=reference"), { source: "reference", backend: "" });
    assert.deepInclude(settings("?mutant=double+free+accepted"), {
      source: "mutant",
      mutant: "double free accepted",
    });
    assert.deepEqual(settings(""), defaultSettings);
  });

  it("are written to an address that means the same", () => {
    for (const address of [
      "",
      "backend=reference&seed=3",
      "mutant=a+%26+b&ops=gemm",
      "backend=%2Fa.js&export=x&config=y&mode=default&grade=tight&runs=5&law=k%3D0&dtype=f32%2Cf16",
      "backend=a.js&replay=%7B%22law%22%3A%22x%22%2C%22seed%22%3A1%7D&time-budget=10",
    ]) {
      const written = parametersFor(settings(address));
      written.sort();
      const given = new URLSearchParams(address);
      given.sort();
      assert.equal(String(written), String(given));
    }
  });

  it("take a replay line as it is printed", () => {
    const line = '{"law":"gemm f32: x","seed":1,"path":"3:0"}';
    for (const replay of [line, `replay: ${line}`])
      assert.deepEqual(optionsFrom({ ...defaultSettings, replay }).replay, JSON.parse(line));
    assert.throws(() => optionsFrom({ ...defaultSettings, replay: "gemm" }), /The replay line is no JSON/);
  });

  it("leave a bad number for the suite to refuse", () => {
    for (const seed of ["", "x"]) assert.isNaN(optionsFrom({ ...defaultSettings, seed }).seed);
  });
});
