import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "chai";

const main = fileURLToPath(new URL("./programs/main.js", import.meta.url));
const given = fileURLToPath(new URL("./programs/given.js", import.meta.url));

/** Starts the program and returns the address that it names. */
async function started(child: ChildProcess): Promise<string> {
  let text = "";
  for await (const chunk of child.stdout!) {
    text += chunk;
    const origin = /Open (http:\S+)\/ in a browser/.exec(text)?.[1];
    if (origin !== undefined) return origin;
  }
  throw new Error(`It ended, and wrote ${text}`);
}

describe("the program of a page", () => {
  it("serves the page isolated, with workers, until it is interrupted", async () => {
    const child = spawn(process.execPath, [main, "--port", "0"], { stdio: ["ignore", "pipe", "inherit"] });
    const exit = once(child, "exit");
    try {
      const origin = await started(child);
      const page = await fetch(`${origin}/`);
      expect(await page.text()).to.contain("./page.js");
      expect(page.headers.get("Content-Type")).to.match(/^text\/html/);
      expect(page.headers.get("Cross-Origin-Opener-Policy")).to.equal("same-origin");
      expect(page.headers.get("Cross-Origin-Embedder-Policy")).to.equal("require-corp");
      for (const [path, part] of [
        ["page.js", "the page itself"],
        ["worker.js", "postMessage"],
      ] as const) {
        const script = await fetch(`${origin}/${path}`);
        expect(script.headers.get("Content-Type")).to.match(/^text\/javascript/);
        const text = await script.text();
        expect(text).to.contain(part);
        expect(text).not.to.match(/\b(?:from|import)\s*\(?\s*["'](?:@|node:)/);
      }
      const missing = await fetch(`${origin}/../package.json`);
      expect([missing.status, await missing.text()]).to.deep.equal([404, "There is no /package.json here."]);

      const { port } = new URL(origin);
      const second = spawnSync(process.execPath, [main, "--port", port], { encoding: "utf8" });
      expect(second).to.include({ status: 1, stdout: "" });
      expect(second.stderr).to.contain(`Port ${port} is taken`);
    } finally {
      child.kill("SIGINT");
    }
    expect(await exit).to.deep.equal([0, null]);
  });

  // Elsewhere there are no such files, and no groups of processes.
  (process.platform === "win32" ? it.skip : it)(
    "ends well if Ctrl-C ends its bundler too, in the middle of its work",
    async () => {
      const folder = mkdtempSync(join(tmpdir(), "backplane-page-"));
      try {
        const pipe = join(folder, "page.js");
        expect(spawnSync("mkfifo", [pipe])).to.include({ status: 0 });
        const child = spawn(process.execPath, [given, pipe, "--port", "0"], {
          detached: true,
          stdio: ["ignore", "pipe", "pipe"],
        });
        let text = "";
        for (const stream of [child.stdout, child.stderr])
          stream.on("data", (chunk) => {
            text += chunk;
          });
        const exit = once(child, "close");
        // Waits until the bundler reads the script, and lets it wait for more.
        const file = await open(pipe, "w");
        process.kill(-child.pid!, "SIGINT");
        expect(await exit, text).to.deep.equal([0, null]);
        expect(text).to.equal("");
        await file.close();
      } finally {
        rmSync(folder, { recursive: true });
      }
    },
  );

  it("explains itself, and says what is wrong with its options", () => {
    const help = spawnSync(process.execPath, [main, "--", "--help"], { encoding: "utf8" });
    expect(help).to.include({ status: 0, stderr: "" });
    expect(help.stdout).to.match(/^Shows a line\.\n\n {2}some command \[options\]\n\n {2}--port N/);
    for (const [args, message] of [
      [["--port", "65536"], '--port is "65536"; allowed: whole numbers from 0 to 65535'],
      [["--port", "-1"], "Option '--port' argument is ambiguous"],
      [["--host", "x"], "Unknown option '--host'"],
    ] as const) {
      const wrong = spawnSync(process.execPath, [main, ...args], { encoding: "utf8" });
      expect(wrong).to.include({ status: 2, stdout: "" });
      expect(wrong.stderr.startsWith(message), wrong.stderr).to.equal(true);
      expect(wrong.stderr).to.contain(help.stdout);
    }
  });
});
