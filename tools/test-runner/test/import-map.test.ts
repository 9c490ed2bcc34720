import { assert } from "chai";
import { importMap, resolveSpecifier } from "#src/import-map.js";
import { workspacePackages } from "#src/workspace.js";

describe("import map", () => {
  const map = importMap([
    {
      path: "packages/gpu",
      manifest: {
        name: "@backplane/gpu",
        exports: {
          ".": {
            node: { types: "./dist/node.d.ts", default: "./dist/node.js" },
            browser: { types: "./dist/browser.d.ts", default: "./dist/browser.js" },
          },
          "./extra": { types: "./dist/extra.d.ts", default: "./dist/extra.js" },
          "./package.json": "./package.json",
        },
        imports: { "#src/*": "./dist/*" },
        dependencies: { "fast-check": "^4.0.0" },
      },
    },
  ]);

  it("takes the browser's side of an exports map", () => {
    assert.equal(map.imports["@backplane/gpu"], "/packages/gpu/dist/browser.js");
    assert.equal(map.imports["@backplane/gpu/extra"], "/packages/gpu/dist/extra.js");
    assert.notProperty(map.imports, "@backplane/gpu/package.json");
  });

  it("names each module that a pattern of an exports map stands for", () => {
    const { imports } = importMap(workspacePackages());
    const operations = "/packages/core/dist/ops";
    assert.equal(imports["@backplane/core/operations/arg-reduce"], `${operations}/arg-reduce/index.js`);
    assert.notProperty(imports, "@backplane/core/operations/checks");
    assert.isEmpty(Object.keys(imports).filter((name) => name.includes("*")));
  });

  it("keeps private names inside their package", () => {
    assert.deepEqual(map.scopes, { "/packages/gpu/": { "#src/": "/packages/gpu/dist/" } });
  });

  it("maps npm dependencies to bundles", () => {
    assert.equal(map.imports["fast-check"], "/vendor/fast-check.js");
    assert.equal(map.imports.chai, "/vendor/chai.js");
  });

  it("resolves what modules import, as a page would", () => {
    const inside = (specifier: string) =>
      resolveSpecifier(map, specifier, "/packages/gpu/dist-test/one.test.js");
    assert.equal(inside("@backplane/gpu/extra"), "/packages/gpu/dist/extra.js");
    assert.equal(inside("chai"), "/vendor/chai.js");
    assert.equal(inside("#src/kernels/gemm.js"), "/packages/gpu/dist/kernels/gemm.js");
    assert.equal(
      resolveSpecifier(map, "#src/kernels/gemm.js", "/packages/other/a.js"),
      "#src/kernels/gemm.js",
    );
    for (const other of ["./two.js", "../two.js", "unknown"]) assert.equal(inside(other), other);
  });
});
