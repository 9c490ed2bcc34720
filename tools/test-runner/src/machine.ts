import {
  type HeadlessChromium,
  headlessChromium,
  softwareVulkan,
  unavailableReason,
} from "@backplane/software-adapter";
import { type Browser, chromium } from "playwright-core";
import type { Options } from "./options.js";

/** The environment in which the tests run. */
export interface Machine {
  readonly description: string;
  /** Whether the description names all of the adapter that may decide the outcome of a test. */
  readonly isKnown: boolean;
  readonly env: Readonly<Record<string, string>>;
  readonly launch: () => Promise<Browser>;
}

/**
 * Returns the software adapter if it runs here; otherwise, or on request, the machine's own GPU and Chrome.
 * Throws `SoftwareAdapterUnavailable` if the requested adapter is missing.
 */
export async function chooseMachine(adapter: Options["adapter"]): Promise<Machine> {
  const reason = unavailableReason();
  if (adapter === "system" || (adapter === undefined && reason !== undefined)) {
    return {
      description: "the adapter of this machine",
      isKnown: false,
      env: {},
      launch: () => chromium.launch({ channel: "chrome", args: ["--enable-unsafe-webgpu"] }),
    };
  }
  const { env, description } = await softwareVulkan(adapter === "lavapipe" ? "lavapipe" : "swiftshader");
  // Unpacked before the first test, so that no test has to do it within its time limit.
  const browser = await headlessChromium();
  return { description, isKnown: true, env, launch: () => launchSoftwareChromium(browser) };
}

function launchSoftwareChromium({ executablePath, args, env }: HeadlessChromium): Promise<Browser> {
  return chromium.launch({
    executablePath,
    args: [...args],
    env: { ...process.env, ...env } as Record<string, string>,
  });
}
