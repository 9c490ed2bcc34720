import type { Case, Inputs } from "../cases/case.js";

/** A library to compare with, loaded to run on a number of threads, or on a GPU. */
export interface Peer<Name extends string = PeerName> {
  readonly name: Name;
  readonly version: string;
  /** Threads that it computes with, which may differ from the requested number. */
  readonly threads: number;
  /** How it runs here, and why with no more threads. */
  readonly note: string;
  /** Throws, with the reason, if it cannot run the case. */
  open(test: Case, inputs: Inputs): Promise<PeerCase>;
}

/** A case that a peer has prepared, with its inputs in the peer's own memory if its API allows that. */
export interface PeerCase {
  /** The operators that compute it, and the prepared parts. */
  readonly how: string;
  /** Computes one result, as a user would, and lets go of it. On a GPU it may return before that is done. */
  call(): void | Promise<void>;
  /** Waits until all calls are done, where they return earlier. */
  finish?(): Promise<void>;
  /** Computes one result and returns all of its elements, in the order of the case's output. */
  read(): Promise<ArrayLike<number>>;
  close(): void | Promise<void>;
}

/** By name, whether it computes in WebAssembly, as ours does. Goals are measured by those that do. */
export const peerKinds = {
  "onnxruntime-web": "WebAssembly",
  "tfjs-backend-wasm": "WebAssembly",
  "jax-js": "WebAssembly",
  "onnxruntime-node": "native",
} as const;

export type PeerName = keyof typeof peerKinds;

/** Those on WebGPU. onnxruntime-web has two backends for it: in C++, and the older one in JavaScript. */
export type GpuPeerName = "onnxruntime-web" | "onnxruntime-web-jsep" | "tfjs-backend-webgpu" | "jax-js";

export const peerNames: readonly PeerName[] = Object.keys(peerKinds) as PeerName[];

/** Loads a peer. Rejects if it is not installed or does not start; once per process and peer. */
export async function openPeer(name: PeerName, threads: number): Promise<Peer> {
  switch (name) {
    case "onnxruntime-web":
      return (await import("./onnxruntime.js")).openOnnxRuntimeWeb(threads);
    case "onnxruntime-node":
      return (await import("./onnxruntime.js")).openOnnxRuntimeNode(threads);
    case "tfjs-backend-wasm":
      return (await import("./tfjs.js")).openTfjs();
    case "jax-js":
      return (await import("./jax.js")).openJax(threads);
  }
}

/** The folder in which the peers have a package of their own. */
export const peersFolder: URL = new URL("../../peers/", import.meta.url);

/** Imports a package that is installed for the peers only. */
export async function loadPeer<Module>(packageName: string): Promise<Module> {
  const { load } = (await import(new URL("load.js", peersFolder).href)) as {
    load(name: string): Promise<Module>;
  };
  return load(packageName);
}
