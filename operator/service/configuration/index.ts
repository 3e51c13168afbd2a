/** Renders a service's pod from its ServiceConfig and secrets. Pure: the same input renders the same pod. */
import { mcpServiceConfig, type ServiceConfig } from '../../../crds/services.ts'
import { renderMcp } from './mcp.ts'
import { renderRag } from './rag.ts'
import { renderRest } from './rest.ts'
import type { Rendering, ServiceInput } from './types.ts'

export { servicePorts } from './ports.ts'
export {
  configurationDirectory,
  type RenderedService,
  type Rendering,
  type ServiceContainer,
  type ServiceInput,
  type ServiceResources,
  type ServiceType,
} from './types.ts'

/** Leaves space for the Secret's other fields: its limit is 1 MiB. */
const mostBytes = 900_000

export function renderService(input: ServiceInput): Rendering {
  const { config } = input
  const rendering = renderByType(input, config)
  if (rendering.kind === 'refused' || Buffer.byteLength(JSON.stringify(rendering.service.essential)) <= mostBytes)
    return rendering
  const message = `${config.serviceType}: the configuration is larger than ${mostBytes} bytes`
  return { kind: 'refused', type: config.serviceType, fields: [], message }
}

function renderByType(input: ServiceInput, config: ServiceConfig): Rendering {
  const missing = (type: 'rest' | 'rag'): Rendering => ({
    kind: 'refused',
    type,
    fields: [],
    message: `${type}: the service has no configuration`,
  })
  switch (config.serviceType) {
    case 'mcp':
      return renderMcp(input, config.mcp ?? mcpServiceConfig.parse({}))
    case 'rest':
      return config.rest === undefined ? missing('rest') : renderRest(input, config.rest)
    case 'rag':
      return config.rag === undefined ? missing('rag') : renderRag(input, config.rag)
  }
}
