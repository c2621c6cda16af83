import type net from 'node:net'

export const LOCK: string
export function answerForLock(socket: net.Socket, since: number): void
export function runningAgent(stateDirectory: string): Promise<string | undefined>
