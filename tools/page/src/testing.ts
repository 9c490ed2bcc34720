import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { headlessChromium, unavailableReason } from "@backplane/software-adapter";
import { type Browser, chromium } from "playwright-core";

/** A program of a page that is under test. */
export interface StartedPage {
  /** Where its page is, such as `http://127.0.0.1:8080/`. */
  readonly address: string;
  /** Ends it as a user would. Throws if it does not end with code 0. */
  stop(): Promise<void>;
}

/** Starts the program of a page at any free port. Throws if it ends without naming an address. */
export async function startPage(main: URL): Promise<StartedPage> {
  const child = spawn(process.execPath, [fileURLToPath(main), "--port", "0"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  return { address: await addressOf(child), stop: () => stop(child) };
}

async function addressOf(child: ChildProcess): Promise<string> {
  let text = "";
  for await (const chunk of child.stdout!) {
    text += chunk;
    const address = /Open (\S+) in a browser/.exec(text)?.[1];
    if (address !== undefined) return address;
  }
  throw new Error(`the program has ended, and wrote ${text}`);
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = once(child, "exit");
  child.kill("SIGTERM");
  const [code, signal] = (await exit) as [number | null, string | null];
  if (code !== 0) throw new Error(`the program ended with ${signal ?? `exit code ${code}`}`);
}

/** Starts the browser that the test runner chooses: on the software adapter, or the Chrome of a machine that cannot run it. */
export async function launchBrowser(): Promise<Browser> {
  if (unavailableReason() !== undefined)
    return chromium.launch({ channel: "chrome", args: ["--enable-unsafe-webgpu"] });
  const { executablePath, args, env } = await headlessChromium();
  return chromium.launch({
    executablePath,
    args: [...args],
    env: { ...process.env, ...env } as Record<string, string>,
  });
}
