/* usage: server -p PORT -n NAME [-a ADDRESS] [-l] [-s] [-t] [-u USER:PASSWORD] [-r URL]
 * A server of open62541, with the application URI urn:test:NAME, until SIGTERM. Says "listening" when it is.
 *   -a  its IPv4 address; by default 127.0.0.1
 *   -l  be a discovery server, with which others register
 *   -s  offer the usual security policies, with a certificate made for the occasion
 *   -t  trust any certificate of a client; without it none
 *   -u  let in nobody but this user; without -s also by a password that is not encrypted
 *   -r  register with that discovery server, and sign off at the end */
#include <open62541/client.h>
#include <open62541/client_config_default.h>
#include <open62541/plugin/accesscontrol_default.h>
#include <open62541/plugin/create_certificate.h>
#include <open62541/plugin/log_stdout.h>
#include <open62541/plugin/pki_default.h>
#include <open62541/server.h>
#include <open62541/server_config_default.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile UA_Boolean running = true;

static void stop(int signal) {
  (void)signal;
  running = false;
}

static UA_StatusCode configureSecurely(UA_ServerConfig *config, UA_UInt16 port, const char *uri) {
  char alternative[300];
  snprintf(alternative, sizeof alternative, "URI:%s", uri);
  UA_String subject[] = {UA_STRING("CN=open62541")};
  UA_String alternatives[] = {UA_STRING("DNS:localhost"), UA_STRING(alternative)};
  UA_ByteString key = UA_BYTESTRING_NULL, certificate = UA_BYTESTRING_NULL;
  UA_StatusCode status = UA_CreateCertificate(config->logging, subject, 1, alternatives, 2, UA_CERTIFICATEFORMAT_DER, NULL, &key, &certificate);
  if (status != UA_STATUSCODE_GOOD) return status;
  return UA_ServerConfig_setDefaultWithSecurityPolicies(config, port, &certificate, &key, NULL, 0, NULL, 0, NULL, 0);
}

static UA_StatusCode letIn(UA_ServerConfig *config, char *login) {
  char *colon = strchr(login, ':');
  if (colon == NULL) return UA_STATUSCODE_BADINVALIDARGUMENT;
  *colon = '\0';
  UA_UsernamePasswordLogin user = {UA_STRING(login), UA_STRING(colon + 1)};
  config->allowNonePolicyPassword = true;
  /* Passwords are encrypted by the best policy that is there. */
  const UA_ByteString *policy = &config->securityPolicies[config->securityPoliciesSize - 1].policyUri;
  return UA_AccessControl_default(config, false, policy, 1, &user);
}

static void setBuildInfo(UA_BuildInfo *info) {
  UA_BuildInfo_clear(info);
  info->productName = UA_STRING_ALLOC("Mixer");
  info->productUri = UA_STRING_ALLOC("urn:test:mixer");
  info->manufacturerName = UA_STRING_ALLOC("ACME");
  info->softwareVersion = UA_STRING_ALLOC("2.4.1");
  info->buildNumber = UA_STRING_ALLOC("77");
  info->buildDate = UA_DateTime_fromUnixTime(1770091506); /* 2026-02-03T04:05:06Z */
}

/* Over a channel without security, as RegisterServer is allowed to be. */
static void registerWith(const char *url, UA_Server *server, UA_Boolean online) {
  const UA_ServerConfig *config = UA_Server_getConfig(server);
  UA_Client *client = UA_Client_new();
  UA_ClientConfig_setDefault(UA_Client_getConfig(client));
  UA_StatusCode status = UA_Client_connectSecureChannel(client, url);
  if (status == UA_STATUSCODE_GOOD) {
    UA_RegisterServerRequest request;
    UA_RegisterServerResponse response;
    UA_RegisterServerRequest_init(&request);
    request.server.isOnline = online;
    request.server.serverUri = config->applicationDescription.applicationUri;
    request.server.productUri = config->applicationDescription.productUri;
    request.server.serverType = config->applicationDescription.applicationType;
    request.server.serverNames = (UA_LocalizedText *)&config->applicationDescription.applicationName;
    request.server.serverNamesSize = 1;
    request.server.discoveryUrls = config->serverUrls;
    request.server.discoveryUrlsSize = config->serverUrlsSize;
    __UA_Client_Service(client, &request, &UA_TYPES[UA_TYPES_REGISTERSERVERREQUEST], &response, &UA_TYPES[UA_TYPES_REGISTERSERVERRESPONSE]);
    status = response.responseHeader.serviceResult;
    UA_RegisterServerResponse_clear(&response);
  }
  printf("%s %s\n", online ? "registered" : "signed off", UA_StatusCode_name(status));
  fflush(stdout);
  UA_Client_disconnect(client);
  UA_Client_delete(client);
}

int main(int argc, char **argv) {
  int port = 0, isDiscoveryServer = 0, secure = 0, trusting = 0, option;
  const char *name = "open62541", *address = "127.0.0.1", *discoveryServer = NULL;
  char *login = NULL;
  while ((option = getopt(argc, argv, "a:p:n:lstu:r:")) != -1) {
    if (option == 'a') address = optarg;
    else if (option == 'p') port = atoi(optarg);
    else if (option == 'n') name = optarg;
    else if (option == 'l') isDiscoveryServer = 1;
    else if (option == 's') secure = 1;
    else if (option == 't') trusting = 1;
    else if (option == 'u') login = optarg;
    else if (option == 'r') discoveryServer = optarg;
    else return 2;
  }
  signal(SIGTERM, stop);

  char uri[256], url[256];
  snprintf(uri, sizeof uri, "urn:test:%s", name);
  snprintf(url, sizeof url, "opc.tcp://%s:%d", address, port);
  UA_ServerConfig config;
  memset(&config, 0, sizeof config);
  config.logging = UA_Log_Stdout_new(UA_LOGLEVEL_ERROR);
  UA_StatusCode status = secure ? configureSecurely(&config, (UA_UInt16)port, uri) : UA_ServerConfig_setMinimal(&config, (UA_UInt16)port, NULL);
  if (status == UA_STATUSCODE_GOOD && login != NULL) status = letIn(&config, login);
  if (status != UA_STATUSCODE_GOOD) return 1;
  if (trusting) UA_CertificateVerification_AcceptAll(&config.secureChannelPKI);
  setBuildInfo(&config.buildInfo);
  UA_Array_delete(config.serverUrls, config.serverUrlsSize, &UA_TYPES[UA_TYPES_STRING]);
  config.serverUrls = (UA_String *)UA_Array_new(1, &UA_TYPES[UA_TYPES_STRING]);
  config.serverUrls[0] = UA_STRING_ALLOC(url);
  config.serverUrlsSize = 1;
  UA_String_clear(&config.applicationDescription.applicationUri);
  config.applicationDescription.applicationUri = UA_STRING_ALLOC(uri);
  UA_LocalizedText_clear(&config.applicationDescription.applicationName);
  config.applicationDescription.applicationName = UA_LOCALIZEDTEXT_ALLOC("en", name);
  if (isDiscoveryServer) config.applicationDescription.applicationType = UA_APPLICATIONTYPE_DISCOVERYSERVER;

  UA_Server *server = UA_Server_newWithConfig(&config);
  if (server == NULL || UA_Server_run_startup(server) != UA_STATUSCODE_GOOD) return 1;
  printf("listening\n");
  fflush(stdout);
  if (discoveryServer != NULL) registerWith(discoveryServer, server, true);
  while (running) UA_Server_run_iterate(server, true);
  if (discoveryServer != NULL) registerWith(discoveryServer, server, false);
  UA_Server_run_shutdown(server);
  UA_Server_delete(server);
  return 0;
}
