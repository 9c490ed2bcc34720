import { cpu } from "@backplane/backend-cpu";
import { webgpu } from "@backplane/backend-webgpu";
import { BackendRegistry } from "@backplane/core";
import type { Options } from "./options.js";

/** The backends that this program knows, in order of preference. */
export function registryFor(options: Options): BackendRegistry {
  const { threads } = options;
  return new BackendRegistry([webgpu(), cpu(threads === undefined ? {} : { threads })]);
}
