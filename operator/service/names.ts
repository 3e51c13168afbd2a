/** The names and labels of the objects of services. */
import { childNames, labels } from '../../crds/index.ts'
import type { Component, Owner } from '../objects/ownership.ts'
import type { ServiceType } from './configuration/index.ts'

export const serviceTypes = ['mcp', 'rest', 'rag'] as const satisfies readonly ServiceType[]

/** The parsed name of a service's Deployment, or of the Secret with its configuration. */
export type NamedWorkload = { type: ServiceType; digest: string }

const workloadPattern = /^db-[0-9a-z]{1,16}-(mcp|rest|rag)-([0-9a-f]{10})$/

/** Parses the name of a workload: the inverse of `childNames.serviceWorkload`. Returns undefined for any other name. */
export function parseWorkloadName(name: string): NamedWorkload | undefined {
  const [, type, digest] = workloadPattern.exec(name) ?? []
  const known = serviceTypes.find(known => known === type)
  return known === undefined || digest === undefined ? undefined : { type: known, digest }
}

/** Parses the name of a Service, NetworkPolicy or disruption budget: returns the type of its service. */
export const typeOfAddress = (id: string, name: string): ServiceType | undefined =>
  serviceTypes.find(type => childNames.serviceAddress(id, type) === name)

export const serviceComponent = 'service' satisfies Component

/** The labels of every pod of a service. */
export const servicePodLabels = (owner: Owner, type: ServiceType): Record<string, string> => ({
  [labels.database]: owner.id,
  [labels.component]: serviceComponent,
  [labels.service]: type,
})
