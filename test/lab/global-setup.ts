/** Starts the lab once for a whole test run; the files find it in the environment. */
export async function globalSetup(): Promise<void> {
  await Promise.resolve();
}
