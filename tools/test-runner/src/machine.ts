import {
  type HeadlessChromium,
  headlessChromium,
  softwareVulkan,
  unavailableReason,
} from "@backplane/software-adapter";
import { type Browser, chromium } from "playwright-core";
import type { Options } from "./options.js";

/** What the tests run on. */
export interface Machine {
  readonly description: string;
  readonly env: Readonly<Record<string, string>>;
  readonly launch: () => Promise<Browser>;
}

/**
 * The software adapter wherever it runs; elsewhere, or when asked for, the machine's own GPU and Chrome.
 * Throws `SoftwareAdapterUnavailable` where the adapter that was asked for is missing.
 */
export async function chooseMachine(adapter: Options["adapter"]): Promise<Machine> {
  const reason = unavailableReason();
  if (adapter === "system" || (adapter === undefined && reason !== undefined)) {
    return {
      description: "the adapter of this machine",
      env: {},
      launch: () => chromium.launch({ channel: "chrome", args: ["--enable-unsafe-webgpu"] }),
    };
  }
  const { env, description } = await softwareVulkan(adapter === "lavapipe" ? "lavapipe" : "swiftshader");
  // Unpacked before the first test, so that none has to do it within its time limit.
  const browser = await headlessChromium();
  return { description, env, launch: () => launchSoftwareChromium(browser) };
}

function launchSoftwareChromium({ executablePath, args, env }: HeadlessChromium): Promise<Browser> {
  return chromium.launch({
    executablePath,
    args: [...args],
    env: { ...process.env, ...env } as Record<string, string>,
  });
}
