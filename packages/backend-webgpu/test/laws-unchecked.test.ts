// Tags: kernels, pure
import { createWebGpuBackend } from "@backplane/backend-webgpu";
import { describeBackend, type Law, laws } from "@backplane/conformance";

/**
 * Dawn adds bounds checks to shaders, which `disable_robustness` takes away, as callers may for speed. Data that say where to
 * read and write, out of range, must not reach memory that is not the operand's then, either.
 */
const onPlacesInData = [
  "gather: brings the element of each index, and 0 for those out of range",
  "gather: gives nothing but zeros for indices out of range, wherever they are",
  "scatter: writes nothing for indices out of range, wherever they are",
  "rope: stays within the error bound",
  "pool2dGradient: max: takes nothing of windows whose index is none of theirs",
];

const isOnPlaces = ({ topic, name, dtype }: Law): boolean =>
  onPlacesInData.includes(`${topic}: ${name}`) && dtype !== "i32" && dtype !== "u32";

describeBackend(
  {
    name: "WebGPU without bounds checks",
    create: () => createWebGpuBackend({ dawn: { enable: ["disable_robustness"] } }),
    options: { laws: laws.filter(isOnPlaces), mode: "quick" },
  },
  globalThis,
);
