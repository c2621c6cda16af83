// A camera whose SOAP stack, and whose check of who asks, are not ours: gSOAP's, with its plugin for WS-Security.
//
//   camera ADDRESS [USER PASSWORD [KEY_AND_CERTIFICATE.pem]]
//
// Prints the URL of its device service when it listens. With a file it speaks https. Runs until it is killed.
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "camera.nsmap"
#include "plugin/wsseapi.h"
#include "soapH.h"

static const char *address, *user, *password;
static char device_url[128], media_url[128];
static char *scopes[] = {"onvif://www.onvif.org/Profile/Streaming", "onvif://www.onvif.org/name/gSOAP"};
static char *profiles[] = {"main", "sub"};

#define NEW(soap, type, count) ((struct type *)memset(soap_malloc(soap, sizeof(struct type) * (count)), 0, sizeof(struct type) * (count)))

// Whether who asks is the user; answers with the fault that ONVIF has for it if not.
static int check(struct soap *soap) {
  if (user == NULL) return SOAP_OK;
  const char *name = soap_wsse_get_Username(soap);
  int known = name != NULL && strcmp(name, user) == 0 && soap_wsse_verify_Password(soap, password) == SOAP_OK;
  soap_wsse_delete_Security(soap);
  return known ? SOAP_OK : soap_sender_fault_subcode(soap, "ter:NotAuthorized", "Sender not Authorized", NULL);
}

// For operations that anybody may ask for.
static int open_to_all(struct soap *soap) {
  soap_wsse_delete_Security(soap);
  return SOAP_OK;
}

int __tds__GetSystemDateAndTime(struct soap *soap, struct _tds__GetSystemDateAndTime *request, struct _tds__GetSystemDateAndTimeResponse *reply) {
  time_t now = time(NULL);
  struct tm utc;
  gmtime_r(&now, &utc);
  reply->SystemDateAndTime = NEW(soap, tt__SystemDateTime, 1);
  reply->SystemDateAndTime->DateTimeType = "NTP";
  struct tt__DateTime *moment = reply->SystemDateAndTime->UTCDateTime = NEW(soap, tt__DateTime, 1);
  moment->Time = NEW(soap, tt__Time, 1);
  *moment->Time = (struct tt__Time){utc.tm_hour, utc.tm_min, utc.tm_sec};
  moment->Date = NEW(soap, tt__Date, 1);
  *moment->Date = (struct tt__Date){utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday};
  return open_to_all(soap);
}

int __tds__GetDeviceInformation(struct soap *soap, struct _tds__GetDeviceInformation *request, struct _tds__GetDeviceInformationResponse *reply) {
  *reply = (struct _tds__GetDeviceInformationResponse){"Genivia", "gSOAP <camera>", "2.8", "0012345678901234567890", "gsoap"};
  return check(soap);
}

int __tds__GetNetworkInterfaces(struct soap *soap, struct _tds__GetNetworkInterfaces *request, struct _tds__GetNetworkInterfacesResponse *reply) {
  // The first one has no address: it is not the one that counts.
  struct tt__NetworkInterface *interfaces = reply->NetworkInterfaces = NEW(soap, tt__NetworkInterface, 2);
  reply->__size = 2;
  for (int i = 0; i < 2; i++) {
    interfaces[i].token = i == 0 ? "wlan0" : "eth0";
    interfaces[i].Enabled = i == 0 ? false_ : true_;
    interfaces[i].Info = NEW(soap, tt__NetworkInterfaceInfo, 1);
    *interfaces[i].Info = (struct tt__NetworkInterfaceInfo){interfaces[i].token, i == 0 ? "02:00:00:00:00:ff" : "02:00:00:00:00:2a", 1500};
  }
  struct tt__IPv4NetworkInterface *ipv4 = interfaces[1].IPv4 = NEW(soap, tt__IPv4NetworkInterface, 1);
  ipv4->Enabled = true_;
  ipv4->Config = NEW(soap, tt__IPv4Configuration, 1);
  ipv4->Config->DHCP = true_;
  ipv4->Config->FromDHCP = NEW(soap, tt__PrefixedIPv4Address, 1);
  *ipv4->Config->FromDHCP = (struct tt__PrefixedIPv4Address){(char *)address, 24};
  return check(soap);
}

int __tds__GetScopes(struct soap *soap, struct _tds__GetScopes *request, struct _tds__GetScopesResponse *reply) {
  reply->__size = 2;
  reply->Scopes = NEW(soap, tt__Scope, 2);
  for (int i = 0; i < 2; i++) reply->Scopes[i] = (struct tt__Scope){"Fixed", scopes[i]};
  return check(soap);
}

int __tds__GetServices(struct soap *soap, struct _tds__GetServices *request, struct _tds__GetServicesResponse *reply) {
  struct tt__OnvifVersion *version = NEW(soap, tt__OnvifVersion, 1);
  *version = (struct tt__OnvifVersion){2, 60};
  reply->__size = 2;
  reply->Service = NEW(soap, tds__Service, 2);
  reply->Service[0] = (struct tds__Service){"http://www.onvif.org/ver10/device/wsdl", device_url, version};
  reply->Service[1] = (struct tds__Service){"http://www.onvif.org/ver10/media/wsdl", media_url, version};
  return open_to_all(soap);
}

int __tds__GetCapabilities(struct soap *soap, struct _tds__GetCapabilities *request, struct _tds__GetCapabilitiesResponse *reply) {
  reply->Capabilities = NEW(soap, tt__Capabilities, 1);
  reply->Capabilities->Device = NEW(soap, tt__ServiceAddress, 1);
  reply->Capabilities->Device->XAddr = device_url;
  reply->Capabilities->Media = NEW(soap, tt__ServiceAddress, 1);
  reply->Capabilities->Media->XAddr = media_url;
  return open_to_all(soap);
}

int __trt__GetProfiles(struct soap *soap, struct _trt__GetProfiles *request, struct _trt__GetProfilesResponse *reply) {
  reply->__size = 2;
  reply->Profiles = NEW(soap, tt__Profile, 2);
  for (int i = 0; i < 2; i++) reply->Profiles[i] = (struct tt__Profile){profiles[i], true_, profiles[i]};
  return check(soap);
}

static struct tt__MediaUri *media_uri(struct soap *soap, const char *format, const char *token) {
  char *text = soap_malloc(soap, 256);
  snprintf(text, 256, format, address, token != NULL ? token : "");
  struct tt__MediaUri *uri = NEW(soap, tt__MediaUri, 1);
  *uri = (struct tt__MediaUri){text, false_, false_, "PT0S"};
  return uri;
}

int __trt__GetStreamUri(struct soap *soap, struct _trt__GetStreamUri *request, struct _trt__GetStreamUriResponse *reply) {
  reply->MediaUri = media_uri(soap, "rtsp://%s/stream/%s", request->ProfileToken);
  return check(soap);
}

int __trt__GetSnapshotUri(struct soap *soap, struct _trt__GetSnapshotUri *request, struct _trt__GetSnapshotUriResponse *reply) {
  reply->MediaUri = media_uri(soap, "http://%s/snapshot/%s.jpg", request->ProfileToken);
  return check(soap);
}

int main(int count, char **arguments) {
  if (count != 2 && count != 4 && count != 5) {
    fprintf(stderr, "usage: camera ADDRESS [USER PASSWORD [KEY_AND_CERTIFICATE.pem]]\n");
    return 2;
  }
  address = arguments[1];
  if (count > 3) user = arguments[2], password = arguments[3];
  const char *pem = count > 4 ? arguments[4] : NULL;
  struct soap *soap = soap_new1(SOAP_C_UTFSTRING);
  soap_register_plugin(soap, soap_wsse);
  soap->send_timeout = soap->recv_timeout = 5;
  int failed = pem != NULL && soap_ssl_server_context(soap, SOAP_SSL_DEFAULT, pem, NULL, NULL, NULL, NULL, NULL, NULL);
  if (failed || !soap_valid_socket(soap_bind(soap, address, 0, 16))) {
    soap_print_fault(soap, stderr);
    return 1;
  }
  struct sockaddr_in bound;
  socklen_t length = sizeof bound;
  getsockname(soap->master, (struct sockaddr *)&bound, &length);
  const char *scheme = pem != NULL ? "https" : "http";
  snprintf(device_url, sizeof device_url, "%s://%s:%d/onvif/device_service", scheme, address, ntohs(bound.sin_port));
  snprintf(media_url, sizeof media_url, "%s://%s:%d/onvif/media_service", scheme, address, ntohs(bound.sin_port));
  printf("%s\n", device_url);
  fflush(stdout);
  while (soap_valid_socket(soap_accept(soap))) {
    if ((pem == NULL || soap_ssl_accept(soap) == SOAP_OK) && soap_serve(soap) != SOAP_OK && soap->error != SOAP_EOF) {
      soap_print_fault(soap, stderr);
    }
    soap_destroy(soap);
    soap_end(soap);
  }
  return 0;
}
