/**
 * A backend of TensorFlow.js on Backplane.
 *
 * @module
 */
export type { BackplaneBackend } from "./backend.js";
export type { KernelProfile, KernelProfileRow } from "./profile.js";
export { type RegisterOptions, type Registration, register, type TensorFlow } from "./register.js";
