export function missingRegistry(): string | undefined
export function startRegistry(
  directory: string,
): Promise<{ readonly env: NodeJS.ProcessEnv; readonly close: () => void }>
