/** What a service's pod is made of, from its ServiceConfig and secrets. Pure: the same input renders the same pod. */
export { servicePorts } from './ports.ts'
export {
  configurationDirectory,
  type RenderedService,
  type Rendering,
  type ServiceContainer,
  type ServiceInput,
  type ServiceResources,
  type ServiceSettings,
  type ServiceType,
} from './types.ts'

import type { Rendering, ServiceInput } from './types.ts'

export function renderService(input: ServiceInput): Rendering {
  return { kind: 'refused', type: input.config.serviceType, fields: [], message: 'services are not rendered yet' }
}
