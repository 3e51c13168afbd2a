/**
 * The route table, by which the operator tells the gateway who may reach what. A route is a ConfigMap
 * `route-<port>` in the system namespace: creating it claims the port, since the API server keeps names unique.
 *
 * A gateway replica heartbeats a Lease (labelled component `gateway`) that carries the resourceVersion up to which it
 * has put every route into force. A route's version at or below that of every live replica has been acknowledged.
 * Resource versions of one kind are compared as numbers, as the API server lets one do.
 */
import { z } from 'zod'
import { ipv4Cidr } from './fields.ts'

export const route = z.strictObject({
  databaseId: z.string(),
  /** Names the endpoint in logs and in denials: the host label. */
  label: z.string(),
  port: z.int().min(1).max(65535),
  /** The Service that connections go to. */
  target: z.strictObject({ namespace: z.string(), service: z.string(), port: z.int().min(1).max(65535) }),
  /** Masked CIDR blocks; none closes the endpoint. */
  rules: z.array(ipv4Cidr).max(50),
})
export type Route = z.output<typeof route>

export const routeName = (port: number): string => `route-${port}`
/** The ConfigMap key that holds the route as JSON. */
export const routeKey = 'route.json'
export const routeComponent = 'route'

/** On a gateway's Lease: the resourceVersion up to which every route is in force there. */
export const acknowledgedAnnotation = 'espalier.dev/acknowledged-resource-version'
export const gatewayComponent = 'gateway'
/** A replica that has not renewed its Lease for this long refuses new connections, and is not waited for. */
export const gatewayLeaseSeconds = 90
