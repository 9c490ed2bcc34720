/**
 * Whether commands wait for their pipelines (see `CommandQueue`) on adapters that are emulated in software, too: for tests. There,
 * the compiler and the device share the processors, and a device that waits for all kernels computes nothing while the next
 * ones are compiled.
 */
export const holding: { onSoftware: boolean } = { onSoftware: false };
