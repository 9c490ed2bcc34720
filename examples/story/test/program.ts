import { spawnSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { ggufFile, llama2cFile, llama2cTokenizerFile, pieces } from "./tiny.js";

export const main: string = fileURLToPath(new URL("../dist/main.js", import.meta.url));

export interface Ending {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the program to its end. */
export function story(...args: string[]): Ending {
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...args], { encoding: "utf8" });
  return { status, stdout, stderr };
}

/** A new folder with small models, and the options that name one of them. */
export function makeFiles(): { readonly folder: string; readonly checkpoint: readonly string[] } {
  const folder = mkdtempSync(join(tmpdir(), "backplane-story-"));
  const write = (name: string, bytes: Uint8Array) => {
    writeFileSync(join(folder, name), bytes);
    return join(folder, name);
  };
  const tokenizer = write("tokenizer.bin", llama2cTokenizerFile(pieces));
  write("tiny.gguf", ggufFile("F32"));
  return { folder, checkpoint: ["--model", write("tiny.bin", llama2cFile()), "--tokenizer", tokenizer] };
}
