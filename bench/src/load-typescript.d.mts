/**
 * Bundles a source module of the workspace as programs are bundled.
 * @returns the bundle's path
 */
export function bundleTypeScript(file: string): Promise<string>
/** Imports a source module of the workspace. */
export function loadTypeScript(
  file: string,
): Promise<{ measure(): Promise<import('./table.d.mjs').Figure[]> }>
