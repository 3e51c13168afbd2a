/** The ports of a service's pod. */
export const servicePorts = {
  mcp: { tools: 8080, bridge: 8090 },
  rest: { http: 3000, admin: 3001 },
  rag: { http: 8081 },
} as const
