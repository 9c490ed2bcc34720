// Tags: proof
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { createCpuBackend } from "@backplane/backend-cpu";
import { createWebGpuBackend } from "@backplane/backend-webgpu";
import { expect } from "chai";
import { anchors, codeBlocks, expectedOutput, fileLinks } from "#src/markdown.js";
import { operationsTable } from "#src/operations-table.js";
import { documents, read, root } from "./files.js";

/** Inside this package, so that the programs find the packages that they import. */
const folder = fileURLToPath(new URL("../dist-test/programs/", import.meta.url));

interface Program {
  readonly title: string;
  readonly name: string;
  readonly code: string;
}

const programs = documents().flatMap((document) =>
  codeBlocks(read(document), "ts").map(
    ({ line, code }): Program => ({
      title: `${document}:${line}`,
      name: `${document.replaceAll(/\W/g, "-")}-${line}`,
      code,
    }),
  ),
);

/** Against hangs only; less than a test may take. */
const hangMilliseconds = 900_000;

function node(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: folder,
    encoding: "utf8",
    timeout: hangMilliseconds,
  });
  return { status, stdout, stderr };
}

describe("examples of the documentation", () => {
  before("compile", () => {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    for (const { name, code } of programs) writeFileSync(join(folder, `${name}.ts`), `${code}\nexport {};\n`);
    const compilerOptions = {
      composite: false,
      isolatedDeclarations: false,
      sourceMap: false,
      types: ["node"],
    };
    const options = { extends: join(root, "tsconfig.base.json"), compilerOptions, include: ["*.ts"] };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(options));
    const { status, stdout } = node(join(root, "node_modules/typescript/bin/tsc"), "-p", folder);
    expect(status, stdout).to.equal(0);
  });

  it("are there", () => {
    expect(programs.map(({ title }) => title)).to.satisfy((titles: string[]) =>
      titles.some((title) => title.startsWith("README.md")),
    );
  });

  for (const { title, name, code } of programs)
    it(`${title} prints what it says, and ends`, () => {
      const { status, stdout, stderr } = node(join(folder, `${name}.js`));
      expect(status, stderr).to.equal(0);
      const printed = stdout === "" ? [] : stdout.trimEnd().split("\n");
      expect(printed).to.deep.equal(expectedOutput(code));
    });
});

describe("links of the documentation", () => {
  for (const document of documents())
    it(`${document} links to files and headings that exist`, () => {
      for (const { path, anchor } of fileLinks(read(document))) {
        const target = path === "" ? document : join(dirname(document), path);
        expect(existsSync(join(root, target)), target).to.equal(true);
        if (anchor !== undefined) expect([...anchors(read(target))], target).to.include(anchor);
      }
    });
});

describe("the table of operations", () => {
  it("in README.md is what the backends answer to supports()", () => {
    const backends = [createCpuBackend(), createWebGpuBackend()];
    const readme = read("README.md");
    const table = operationsTable(backends);
    const missing = table.split("\n").filter((row) => !readme.includes(row));
    expect(missing, "rows that the README lacks").to.deep.equal([]);
    expect(readme.includes(table), "the rows stand in another order or among others").to.equal(true);
  });
});
