import { spawn } from "node:child_process";

/** Against hangs only: a program that has not ended after so long is killed. Tests may take longer still. */
const hangMilliseconds = 900_000;

/** Runs a program against the built package; answers what it printed. */
export function runProgram(
  body: string,
  entry: string = new URL("../dist/index.js", import.meta.url).href,
): Promise<{ code: number | null; output: string }> {
  const script = `import { createCpuBackend } from ${JSON.stringify(entry)};\n${body}`;
  const child = spawn(process.execPath, ["--expose-gc", "--input-type=module", "-e", script], {
    // What it finds, it is to find by itself.
    env: { ...process.env, NODE_PATH: "", NODE_OPTIONS: "" },
  });
  let output = "";
  child.stdout.on("data", (text: Buffer) => {
    output += text.toString();
  });
  child.stderr.on("data", (text: Buffer) => {
    output += text.toString();
  });
  const timer = setTimeout(() => child.kill("SIGKILL"), hangMilliseconds);
  return new Promise((resolve) => {
    child.on("close", (code) => {
      clearTimeout(timer);
      resolve({ code, output });
    });
  });
}
