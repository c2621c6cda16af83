/** The name of the agent's socket in the directory that the agent shares with handlers. */
export const AGENT_SOCKET = 'agent-registration.sock'
