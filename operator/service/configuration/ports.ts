import { samplesPorts } from '../../../server/samples.ts'

/** The ports of a service's pod. */
export const servicePorts = {
  mcp: { tools: 8080, bridge: 8090, toolsSamples: samplesPorts.first, bridgeSamples: samplesPorts.second },
  rest: { http: 3000, admin: 3001, samples: samplesPorts.first },
  rag: { http: 8081, samples: samplesPorts.first },
} as const
