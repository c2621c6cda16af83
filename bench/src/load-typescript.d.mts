/**
 * Bundles a module of the workspace's sources as programs are.
 * @returns the bundle's path
 */
export function bundleTypeScript(file: string): Promise<string>
/** Imports a module of the workspace's sources. */
export function loadTypeScript(
  file: string,
): Promise<{ measure(): Promise<import('./table.d.mjs').Figure[]> }>
