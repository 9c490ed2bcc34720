/**
 * WebGPU's own types for the public interface. They are looked up in the program that imports this package.
 * If the program has WebGPU's types (of `@webgpu/types`, or TypeScript's library `dom`), these are used;
 * otherwise they are `object`, and nothing needs to be installed.
 */

interface Declared<Type> {
  readonly prototype: Type;
}

type Realm = typeof globalThis;

/** The type of `navigator.gpu`. */
export type NativeGpu = Realm extends { readonly GPU: Declared<infer Gpu> } ? Gpu : object;
export type NativeAdapter = Realm extends { readonly GPUAdapter: Declared<infer Adapter> } ? Adapter : object;
export type NativeDevice = Realm extends { readonly GPUDevice: Declared<infer Device> } ? Device : object;
export type NativeBuffer = Realm extends { readonly GPUBuffer: Declared<infer Buffer> } ? Buffer : object;

/** Finds the platform's equivalent of `navigator.gpu`; undefined if it has none. */
export type FindGpu = () => Promise<NativeGpu | undefined>;
